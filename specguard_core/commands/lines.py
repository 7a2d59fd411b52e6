"""Traces, verdicts and figures as lines of text. Pure; knows no stream and no model."""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never, get_args

from specguard_core.commands.console import Palette, Style, visible
from specguard_core.config import DecodeConfig, ReadingName
from specguard_core.events import (
    BlockCommitted,
    ChainsMoved,
    Committed,
    Event,
    Proposed,
    Selected,
    Verified,
)
from specguard_core.metrics import (
    Interval,
    accept_rate,
    block_accept_rate,
    fallback_rate,
    target_only_time,
    tokens_per_block,
)
from specguard_core.presets import PRESETS, difference
from specguard_core.readings import SIGNALS, calibrated_bounds
from specguard_core.regate import Regate
from specguard_core.remarks import remark_on
from specguard_core.results import Summary
from specguard_core.text import join_pieces
from specguard_core.types import (
    Block,
    Candidate,
    ModelInfo,
    Reading,
    Role,
    RoleCost,
    Step,
    Trace,
    Verdict,
)

ROLES: tuple[Role, ...] = get_args(Role)
_INDENT = " " * 5


def event_lines(event: Event, paint: Palette) -> list[str]:
    """What a person is shown of an event; only a kept step is worth lines."""
    match event:
        case Committed(step=step, trace=trace):
            return step_lines(step, trace.pieces, paint)
        case BlockCommitted(block=block, trace=trace):
            return block_lines(block, trace.pieces, paint)
        case ChainsMoved(moved=moved):
            return [
                f"chain {index + 1:<2} {line}"
                for index, inner in moved
                for line in event_lines(inner, paint)
            ]
        case Proposed() | Selected() | Verified():
            return []
        case _:
            assert_never(event)


def event_progress(event: Event) -> str:
    """What happens after an event, while it lasts."""
    match event:
        case Proposed(step_index=index, candidates=candidates):
            return f"step {index + 1}: {len(candidates)} different candidates"
        case Selected(step_index=index):
            return f"step {index + 1}: judging"
        case Verified(step_index=index, verdict=verdict):
            refused = verdict is not None and not verdict.accepted
            return f"step {index + 1}: {'the target writes' if refused else 'keeping'}"
        case Committed(step=step):
            return f"step {step.index + 2}: drafting"
        case BlockCommitted(block=block):
            return f"block {block.index + 2}: drafting"
        case ChainsMoved(moved=moved):
            return f"{len(moved)} chains; {event_progress(moved[0][1])}"
        case _:
            assert_never(event)


def unit_lines(unit: Step | Block, pieces: Mapping[int, bytes], paint: Palette) -> list[str]:
    """A step or a block, as it is shown when it is kept."""
    if isinstance(unit, Block):
        return block_lines(unit, pieces, paint)
    return step_lines(unit, pieces, paint)


def block_lines(block: Block, pieces: Mapping[int, bytes], paint: Palette) -> list[str]:
    """A block's number, how much of it was accepted, and its text, the target's token marked."""
    accepted = visible(join_pieces(block.drafted[: block.n_accepted], pieces))
    text = paint(accepted.replace("\n", "\\n"), "accepted")
    if block.correction is not None:
        own = visible(join_pieces([block.correction.token_id], pieces)).replace("\n", "\\n")
        text += f" {block.correction.kind} {paint(own, 'fallback')}"
    share = f"{block.n_accepted}/{len(block.drafted)}"
    return [f"{block.index + 1:>3}  {share:>5} accepted  {text}"]


def step_lines(step: Step, pieces: Mapping[int, bytes], paint: Palette) -> list[str]:
    """A step's number, outcome, score and readings; the kept text, and the refused one above it."""
    word, style = outcome_word(step)
    parts = [f"{step.index + 1:>3}  {paint(f'{word:<9}', style)}", verdict_text(step.verdict)]
    kept = f", the first {step.outcome.n_kept} the draft's" if step.outcome.n_kept else ""
    parts.append(f"{len(step.output.tokens)} tokens{kept}")
    lines = ["  ".join(part for part in parts if part)]
    if step.written is not None and step.chosen is not None:
        lines += [paint(line, "faint") for line in _marked("- ", step.chosen, pieces)]
        return lines + [paint(line, style) for line in _marked("+ ", step.written, pieces)]
    return lines + _marked("  ", step.output, pieces)


def outcome_word(step: Step) -> tuple[str, Style]:
    """What happened to a step, in one word, and its colour."""
    if step.outcome.forced:
        return ("edited" if step.outcome.source == "edited" else "forced"), "forced"
    if step.outcome.source == "draft":
        return ("accepted" if step.verdict else "draft"), "accepted"
    return ("fallback" if step.verdict else "target"), "fallback"


def verdict_text(verdict: Verdict | None) -> str:
    """`score 0.83 >= 0.70` and the readings it is made of; empty where there is none."""
    if verdict is None:
        return ""
    sign = ">=" if verdict.accepted else "< "
    readings = " · ".join(
        f"{name} {reading.normalised:.2f} ({_raw(name, reading)})"
        for name, reading in verdict.readings.items()
        if reading.weight > 0
    )
    return f"score {verdict.score:.2f} {sign} {verdict.threshold:.2f}  {readings}"


def head_lines(trace: Trace, paint: Palette) -> list[str]:
    """What was asked, of which models, under which knobs."""
    models = [f"{info.name} ({_size(info)})" for info in _models(trace)]
    changed = ", ".join(f"{k}={_value(v)}" for k, v in _nearest_preset(trace.config)[1].items())
    preset = f"preset {_nearest_preset(trace.config)[0]}"
    lines = [paint(visible(trace.problem), "strong")]
    lines.append(f"{' + '.join(models)} · {preset}{f' with {changed}' if changed else ''}")
    uncalibrated = uncalibrated_readings(trace)
    if uncalibrated:
        lines.append(f"uncalibrated: {', '.join(uncalibrated)} (fixed bounds are used)")
    return lines


def end_lines(trace: Trace, paint: Palette) -> list[str]:
    """How a run ended, its answer, and what it took by role."""
    noun = "block" if trace.blocks else "step"
    n_steps = f"{len(trace.units)} {noun}{'' if len(trace.units) == 1 else 's'}"
    if trace.finish is not None:
        answer = "no answer found" if trace.finish.answer is None else trace.finish.answer
        gold = "" if trace.gold is None else f" (right answer: {visible(trace.gold)})"
        end = f"{trace.finish.reason} after {n_steps}"
        lines = [f"{paint(f'answer: {visible(answer)}', 'strong')}{gold} · {end}"]
        remark = remark_on(trace)
        lines += [] if remark is None else [remark]
    else:
        reason = f": {visible(trace.failure)}" if trace.failure else ""
        lines = [f"{trace.status} after {n_steps}{reason}"]
    rates = [("accepted", accept_rate([trace])), ("the target wrote in", fallback_rate([trace]))]
    shares = [f"{name} {rate:.0%} of steps" for name, rate in rates if rate is not None]
    accepted, per_block = block_accept_rate([trace]), tokens_per_block([trace])
    if accepted is not None and per_block is not None:
        shares.append(f"accepted {accepted:.0%} of drafted tokens · {per_block:.2f} tokens a block")
    return lines + vote_lines(trace) + shares + list(cost_lines(trace))


def vote_lines(trace: Trace) -> list[str]:
    """Each answer that chains gave, the winner first; none where there was no vote."""
    lines = []
    for ballot in () if trace.vote is None else trace.vote.ballots:
        answer = "no answer" if ballot.answer is None else visible(ballot.answer)
        reward = "" if ballot.mean_reward is None else f" · mean reward {ballot.mean_reward:.2f}"
        chains = ", ".join(str(index + 1) for index in ballot.chains)
        lines.append(f"  {answer}: {len(ballot.chains)} votes (chains {chains}){reward}")
    return lines


def cost_lines(trace: Trace) -> Iterator[str]:
    """Tokens and time by role, and the target's own time."""
    total = trace.cost
    for role in ROLES:
        if role in total.roles:
            yield f"  {role.replace('_', ' '):<18}{_spent(total.roles[role])}"
    if total.target_passes:
        passes = f"{total.target_passes:>7,} passes  {total.target_positions:,} positions"
        yield f"  {'target':<18}{passes}"
    alone = target_only_time(trace)
    if alone is not None:
        time = f"{alone.milliseconds:>9,.0f} ms ({alone.basis})"
        yield f"  {'target alone':<18}{'':>7}         {time}"


def regate_lines(trace: Trace, judged: Regate) -> list[str]:
    """Each step that would have gone another way; later ones are stale after the first."""
    lines = []
    for index in judged.flips:
        step, after = trace.steps[index], judged.verdicts[index]
        stale = "" if index == judged.first_flip else "  (stale: it stands after another flip)"
        before = step.verdict
        if before is not None and after is not None:
            words = [("accepted" if verdict.accepted else "refused") for verdict in (before, after)]
            same = "other candidate" if after.accepted else "refused at another token"
            change = same if words[0] == words[1] else f"{words[0]} -> {words[1]}"
            lines.append(f"{index + 1:>3}  {change}  {verdict_text(after)}{stale}")
    lines += [f"{index + 1:>3}  {sentence}" for index, sentence in judged.unmeasured.items()]
    return lines or ["  no step flips"]


def summary_lines(summary: Summary, n_problems: int) -> list[str]:
    """An evaluation's figures."""
    accuracy = "not measured" if summary.accuracy is None else interval_text(summary.accuracy)
    lines = [f"accuracy {accuracy} of {n_problems} problems"]
    for name, rate in (("accept", summary.accept_rate), ("fallback", summary.fallback_rate)):
        lines.append(f"{name} rate {'not measured' if rate is None else f'{rate:.3f}'}")
    for role in ROLES:
        if role in summary.tokens:
            spent = RoleCost(summary.tokens[role], summary.seconds.get(role, 0.0) * 1000)
            lines.append(f"  {role.replace('_', ' '):<18}{_spent(spent)}")
    return lines


def interval_text(interval: Interval) -> str:
    """`0.900 [0.596, 0.982]`."""
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _size(info: ModelInfo) -> str:
    return "on a server" if info.remote else f"{info.n_parameters:,} parameters"


def uncalibrated_readings(trace: Trace) -> list[str]:
    """Weighted readings that were meant to be calibrated and are not."""
    config = trace.config
    if config.strategy != "specguard" or config.normalisation != "calibrated":
        return []
    names = [name for name in config.weight if name != "agreement"]
    return [name for name in names if calibrated_bounds(name, config, trace.calibration) is None]


def _marked(mark: str, candidate: Candidate, pieces: Mapping[int, bytes]) -> list[str]:
    text = visible(join_pieces(candidate.token_ids, pieces)).strip("\n")
    return [f"{_INDENT}{mark}{line}" for line in text.split("\n")]


def _raw(name: ReadingName, reading: Reading) -> str:
    if reading.expected is not None:
        return f"{reading.raw + reading.expected:.2f}, {reading.expected:.2f} usual there"
    return f"{reading.raw:.2f} nat" if SIGNALS[name].unit == "nat" else f"{reading.raw:.2f}"


def _models(trace: Trace) -> list[ModelInfo]:
    return [info for info in (trace.draft, trace.target) if info is not None]


def _nearest_preset(config: DecodeConfig) -> tuple[str, dict[str, Any]]:
    found = {name: difference(config, base) for name, base in PRESETS.items()}
    name = min(found, key=lambda known: len(found[known]))
    return name, found[name]


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{name}:{weight:g}" for name, weight in value)
    return visible(repr(value)) if isinstance(value, str) else str(value)


def _spent(cost: RoleCost) -> str:
    rate = 1000 * cost.tokens / cost.milliseconds if cost.milliseconds > 0 else None
    speed = f"  {rate:,.0f} tokens/s" if rate is not None and cost.tokens else ""
    return f"{cost.tokens:>7,} tokens  {cost.milliseconds:>9,.0f} ms{speed}"
