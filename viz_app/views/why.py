"""The verdict's arithmetic, to the digit: raw reading -> [0, 1] x weight = part, and their sum."""

import math
from typing import Any

from specguard_core.config import ReadingName
from specguard_core.readings import SIGNALS
from specguard_core.types import Candidate, Reading, Verdict
from viz_app.gold import NO_GOLD, Gold
from viz_app.session import WRITTEN, Look
from viz_app.sight import Sight
from viz_app.views.candidates import shown_index, shown_name, verdict_if_chosen
from viz_app.views.digits import digits_view
from viz_app.views.flips import flips, threshold_line
from viz_app.views.numbers import MINUS, adding_up, decimals_apart, fixed, level, nats, significant
from viz_app.views.rightness import known_steps, wrong
from viz_app.views.scales import bounds_of
from viz_app.views.tokens import plain_text, token_text
from viz_app.whatif import WhatIf


def why_view(
    sight: Sight | None, look: Look, whatif: WhatIf | None = None, gold: Gold = NO_GOLD
) -> dict[str, Any]:
    """What the rule said of the candidate that is looked at, and why; whether it was mistaken."""
    if sight is None:
        return {"empty": "Why a step was kept or refused will stand here, as a sum."}
    index = shown_index(sight, look)
    if sight.phase in ("sample", "select") and sight.candidates:
        return {"empty": "Not judged yet: the next phases select a candidate and verify it."}
    if index == WRITTEN:
        whose = "Your" if shown_name(sight, look) == "your step" else "The target\u2019s"
        sentence = f"{whose} step is kept as it is; no rule judges it."
        return {"empty": sentence, "step": sight.step_index + 1}
    judged = index == sight.judged_index
    verdict = sight.verdict if judged else verdict_if_chosen(sight, index)
    if verdict is None:
        unjudged = sight.verdict is None
        return {
            "empty": "This strategy makes no check: the step is kept unjudged."
            if unjudged
            else "A weighted reading of this candidate was not measured, so no score is made up."
        }
    return {
        "step": sight.step_index + 1,
        "name": shown_name(sight, look),
        **arithmetic(verdict),
        "digits": digits_view(verdict, sight.trace.config),
        "sentence": _sentence(sight, verdict, judged),
        "fault": _fault(sight, verdict, index, gold),
        "uncalibrated": _uncalibrated(sight, verdict),
        "decided": _decided(sight, verdict, sight.candidates[index]),
        "flips": flips(sight, verdict, index),
        "assertion": assertion(verdict),
        "whatif": _whatif(sight, whatif) if judged else None,
        "force": "fall back" if verdict.accepted else "accept",
    }


def _whatif(sight: Sight, whatif: WhatIf | None) -> dict[str, Any] | None:
    """The same sum at the knobs as they are set; None where they are the run's own."""
    if whatif is None:
        return None
    verdict = whatif.verdict(sight.step_index)
    if verdict is None:
        return {"trouble": whatif.trouble or "This step cannot be judged at these knobs."}
    decimals = decimals_apart(verdict.score, verdict.threshold)
    score, threshold = round(verdict.score, decimals), round(verdict.threshold, decimals)
    side = "above" if verdict.accepted else "short of"
    apart = fixed(abs(score - threshold), decimals)
    sums = f"{fixed(score, decimals)} is {apart} {side} {fixed(threshold, decimals)},"
    then = "would be kept" if verdict.accepted else "would be refused"
    n_kept, outcome = whatif.n_kept(sight.step_index), sight.outcome
    refused_both = not verdict.accepted and outcome is not None and outcome.source == "target"
    if refused_both and not outcome.forced and n_kept not in (None, outcome.n_kept):
        then += f" at another token, number {n_kept + 1}"
    if whatif.is_stale(sight.step_index):
        then += ", but it is stale"
    return {
        **arithmetic(verdict),
        "sentence": [sums, f"so at these knobs it {then}."],
        "assertion": assertion(verdict),
    }


def arithmetic(verdict: Verdict) -> dict[str, Any]:
    """The sum as it is written; parts add up to the score and the margin to the digit."""
    weighted = {name: r for name, r in verdict.readings.items() if r.weight > 0}
    total = math.fsum(reading.weight for reading in weighted.values())
    decimals = decimals_apart(verdict.score, verdict.threshold)
    exact = [reading.normalised * reading.weight / total for reading in weighted.values()]
    parts = adding_up(exact, decimals)
    score = math.fsum(parts)
    threshold = round(verdict.threshold, decimals)
    margin = score - threshold
    return {
        "word": "Accepted" if verdict.accepted else "Refused",
        "accepted": verdict.accepted,
        "readings": [
            _reading_row(name, reading, reading.weight / total, part, decimals)
            for (name, reading), part in zip(weighted.items(), parts, strict=True)
        ],
        "score": verdict.score,
        "threshold": verdict.threshold,
        "score_text": fixed(score, decimals),
        "threshold_text": fixed(threshold, decimals),
        "margin_text": fixed(margin, decimals),
        "shared_weights": abs(total - 1) > 1e-9,
        "unweighted": [
            {"name": name.replace("_", " "), "text": fixed(reading.normalised)}
            for name, reading in verdict.readings.items()
            if reading.weight == 0
        ],
    }


def assertion(verdict: Verdict) -> dict[str, str]:
    """The verdict as Python that holds: short for the eye, full digits for the clipboard."""
    weighted = [reading for reading in verdict.readings.values() if reading.weight > 0]
    total = math.fsum(reading.weight for reading in weighted)
    sign = ">=" if verdict.accepted else "<"
    # As the rule sums them, to the last bit: each weight's share first.
    terms = ", ".join(f"{r.weight!r} / {total!r} * {r.normalised!r}" for r in weighted)
    lines = [
        f"score = math.fsum([{terms}])",
        f"assert score == {verdict.score!r}",
        f"assert score {sign} {verdict.threshold!r}",
    ]
    for name, reading in verdict.readings.items():
        if reading.weight > 0 and reading.low is not None and reading.high is not None:
            low, high = reading.low, reading.high
            formula = f"min(1.0, max(0.0, ({reading.raw!r} - {low!r}) / ({high!r} - {low!r})))"
            if high > low:
                lines.append(f"assert {formula} == {reading.normalised!r}  # {name}")
    short = " + ".join(f"{r.weight:.4g}*{r.normalised:.3g}" for r in weighted)
    short = f"({short}) / {total:.4g}" if abs(total - 1) > 1e-12 else short
    return {
        "short": f"assert {short} {sign} {verdict.threshold:.4g}",
        "full": "import math\n" + "\n".join(lines),
    }


def _reading_row(
    name: ReadingName, reading: Reading, weight: float, part: float, decimals: int
) -> dict[str, Any]:
    in_nats = SIGNALS[name].unit == "nat"
    write = nats if in_nats else fixed
    return {
        "name": name.replace("_", " "),
        "sentence": SIGNALS[name].sentence,
        "raw": write(reading.raw),
        "unit": SIGNALS[name].unit,
        "normalised": fixed(reading.normalised),
        "weight": fixed(weight),
        "part": fixed(part, decimals),
        "share": round(part, 6),
        "formula": _formula(name, reading, in_nats),
        "basis": reading.basis,
    }


def _formula(name: ReadingName, reading: Reading, in_nats: bool) -> str:
    """How the raw value became one in [0, 1], with the bounds used."""
    if reading.basis == "share":
        return "a share of the draws as it is" if name == "agreement" else "as it was given"
    low, high = reading.low, reading.high
    if low is None or high is None:
        return ""
    if high <= low:
        return f"all candidates equal: {fixed(reading.normalised)}"
    write = nats if in_nats else fixed
    sign, distance = ("+", -low) if low < 0 else (MINUS, low)
    text = ""
    if reading.expected is not None:
        had, left = round(reading.raw + reading.expected, 3), round(reading.raw, 3)
        # What is usual is rounded so that the difference holds as written.
        text = f"{fixed(had)} {MINUS} {fixed(had - left)} usual there = {fixed(left)}; "
    text += f"({write(reading.raw)} {sign} {write(distance)}) ÷ {write(high - low)}"
    outside = (reading.raw - low) / (high - low)
    if outside < 0 or outside > 1:
        text += f" = {significant(outside)}, cut to {fixed(reading.normalised, 0)}"
    return text


def _sentence(sight: Sight, verdict: Verdict, judged: bool) -> list[str]:
    decimals = decimals_apart(verdict.score, verdict.threshold)
    score, threshold = round(verdict.score, decimals), round(verdict.threshold, decimals)
    apart = fixed(abs(score - threshold), decimals)
    side = f"{apart} above" if verdict.accepted else f"{apart} short of"
    if verdict.accepted and score == threshold:
        side = "exactly at"
    first = f"{fixed(score, decimals)} is {side} {fixed(threshold, decimals)},"
    if not judged:
        kept = "it would be kept" if verdict.accepted else "the target would write instead"
        return [first, f"so if chosen {kept}."]
    outcome = sight.outcome
    if outcome is not None and outcome.forced:
        who = "a person kept it" if outcome.source == "draft" else "a person had it written anew"
        return [first, f"but {who}."]
    if verdict.accepted:
        return [first, f"so this step {'was' if sight.phase == 'commit' else 'will be'} kept."]
    n_kept = 0 if outcome is None else outcome.n_kept
    if n_kept:
        verb = "wrote on" if sight.phase == "commit" else "will write on"
        return [first, f"so the target {verb} from token {n_kept + 1}."]
    if sight.phase != "commit":
        return [first, "so the target will write it."]
    return [first, "so the target wrote this step."]


def _fault(sight: Sight, verdict: Verdict, index: int, gold: Gold) -> str:
    """What is wrong with a candidate, beside the verdict on it; empty where nothing is known."""
    trace, candidate = sight.trace, sight.candidates[index]
    known = known_steps(trace, gold)[sight.step_index]
    found = wrong(plain_text(candidate, trace.pieces), known, sight.step_index)
    if found is None:
        return ""
    what = "wrong" if found.certain else "another step than the known one"
    if not verdict.accepted:
        return f"It is {what} indeed: {found.reason}."
    catch = threshold_line(verdict)
    caught = f" With the {catch['text']} {catch['value']} it is refused." if catch["does"] else ""
    return f"Yet it is {what}: {found.reason}.{caught}"


def _uncalibrated(sight: Sight, verdict: Verdict) -> bool:
    way, known = sight.trace.config.normalisation, sight.trace.calibration
    return (way == "calibrated" or (way == "fixed" and known is None)) and any(
        reading.basis == "fixed" and SIGNALS[name].token_value is not None
        for name, reading in verdict.readings.items()
        if reading.weight > 0
    )


def _decided(sight: Sight, verdict: Verdict, candidate: Candidate) -> list[dict[str, Any]]:
    """The token behind each weighted minimum, and what it took from the score; weakest first."""
    total = math.fsum(reading.weight for reading in verdict.readings.values())
    decided = []
    for name, reading in sorted(verdict.readings.items(), key=lambda row: row[1].normalised):
        if reading.weight == 0 or reading.weakest_token is None:
            continue
        in_nats = SIGNALS[name].unit == "nat"
        low, _ = bounds_of(name, sight)
        share = reading.raw / low if in_nats and low < 0 else 1 - reading.normalised
        token = candidate.tokens[reading.weakest_token]
        decided.append(
            {
                "token": reading.weakest_token,
                "text": token_text(token.token_id, sight.trace.pieces),
                "level": level(share),
                "label": f"{name.replace('_', ' ')} "
                + (nats(reading.raw) if in_nats else fixed(reading.raw + (reading.expected or 0))),
                "takes": f"takes {fixed(reading.weight / total * (1 - reading.normalised))}",
            }
        )
    return decided
