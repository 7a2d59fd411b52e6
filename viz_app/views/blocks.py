"""One block of drafted tokens: what became of each, by which numbers, and how far blocks get.

chip       one token of a block: drafted ones in order, then the target's own
mark       the shape that tells what became of a chip, so that colour need not
length     drafted tokens of a block that were accepted; the target's own token is one more
"""

from collections import Counter
from typing import Any, Literal

from specguard_core.blocks import Block, Decision, DecisionOutcome, EasdRule
from specguard_core.decoder.block import easd_rule
from specguard_core.metrics import (
    expected_block_tokens,
    expected_lengths,
    mean_ratio,
    tokens_per_block,
)
from specguard_core.strategies import block_strategy
from specguard_core.text import join_pieces
from specguard_core.types import Trace
from viz_app.session import Look, Session, place
from viz_app.views.numbers import fixed, level, nats, significant
from viz_app.views.tokens import NEWLINE, token_text, visible

Kind = Literal[DecisionOutcome, "unjudged", "corrected", "bonus"]
WORDS: dict[Kind, str] = {
    "accepted": "accepted",
    "rejected": "rejected",
    "overridden": "overridden",
    "dropped": "dropped",
    "unjudged": "not judged",
    "corrected": "corrected",
    "bonus": "bonus",
}
_MOST_TEXT = 100


def blocks_view(session: Session, look: Look) -> dict[str, Any]:
    """The block that is looked at, the text it stands in, and the lengths of all blocks."""
    trace, pace = session.trace, session.pace
    if pace.unit != "block":
        return {"hidden": True}
    cursor = place(session, look)
    if trace is None or cursor == 0 or not trace.blocks:
        return {
            "empty": "Each block\u2019s drafted tokens will stand here, and what became of each."
        }
    block = trace.blocks[pace.stop_at(cursor)[0]]
    rule = _rule(trace)
    return {
        "number": block.index + 1,
        "of": len(trace.blocks),
        "note": block_note(block),
        "chips": block_chips(block, trace),
        "selected": opened_at(block),
        "text": [_stretch(other, trace) for other in trace.blocks],
        "lengths": lengths_view(trace),
        "rule": None if rule is None else _rule_words(rule),
    }


def chips_view(session: Session, look: Look) -> dict[str, Any]:
    """What the side says of each chip of the block that is looked at."""
    view = blocks_view(session, look)
    if "chips" not in view:
        return {"empty": "Why a drafted token was kept or not will stand here."}
    return {name: view[name] for name in ("number", "chips", "selected", "rule")}


def block_chips(block: Block, trace: Trace) -> list[dict[str, Any]]:
    """Every token of a block with what became of it; hover and side say the same."""
    rule = _rule(trace)
    greedy = trace.config.target_temperature == 0
    chips = []
    for index, token_id in enumerate(block.drafted):
        judged = index < len(block.decisions)
        decision = block.decisions[index] if judged else None
        kind: Kind = "unjudged" if decision is None else decision.outcome
        chips.append(
            {
                "text": token_text(token_id, trace.pieces),
                "kind": kind,
                "word": WORDS[kind],
                "sentence": _sentence(kind, decision, greedy),
                "numbers": [] if decision is None else _numbers(decision, rule),
            }
        )
    if block.correction is not None:
        kind = block.correction.kind
        chips.append(
            {
                "text": token_text(block.correction.token_id, trace.pieces),
                "kind": kind,
                "word": WORDS[kind],
                "sentence": _target_sentence(block, greedy),
                "numbers": [
                    _number(
                        "p(x)",
                        "the target\u2019s chance",
                        significant(block.correction.target_prob),
                    )
                ],
            }
        )
    return chips


def opened_at(block: Block) -> int:
    """The chip to open at: the one that was not kept, else the last."""
    last = len(block.drafted) + (block.correction is not None) - 1
    return min(block.n_accepted, last)


def block_bars(session: Session) -> list[dict[str, Any]]:
    """A bar of the timeline per block: as wide as its tokens, as high as the share accepted."""
    trace = session.trace
    if trace is None:
        return []
    bars = []
    for block in trace.blocks:
        n_kept, n_drafted = len(block.token_ids), len(block.drafted)
        share = block.n_accepted / n_drafted if n_drafted else None
        bars.append(
            {
                "number": block.index + 1,
                "kind": "accepted" if share == 1 else "partial",
                "word": f"{block.n_accepted} of {n_drafted}",
                "hint": f"block {block.index + 1}: {block_note(block)}",
                "tokens": n_kept,
                "tokens_text": f"{n_kept} tok",
                "text": _text(block, trace)[:_MOST_TEXT],
                "by": "",
                "attempt": f"draw {block.attempt + 1}" if block.attempt else "",
                "score": share,
                "level": None if share is None else level(1 - share),
                "readings": [],
                "stale": False,
                "flips": False,
                "hits": [],
            }
        )
    return bars


def lengths_view(trace: Trace) -> dict[str, Any] | None:
    """How many drafted tokens blocks accept, beside what one chance per token would give."""
    blocks = [block for block in trace.blocks if block.drafted]
    alpha, observed = mean_ratio([trace]), tokens_per_block([trace])
    if not blocks or alpha is None or observed is None:
        return None
    gamma = max(len(block.drafted) for block in blocks)
    counts = Counter(block.n_accepted for block in blocks)
    chances = expected_lengths(alpha, gamma)
    most = max(*counts.values(), *(len(blocks) * chance for chance in chances))
    return {
        "bars": [
            {
                "length": n,
                "count": counts[n],
                "height": round(100 * counts[n] / most, 1),
                "expected": fixed(len(blocks) * chance, 1),
                "expected_height": round(100 * len(blocks) * chance / most, 1),
            }
            for n, chance in enumerate(chances)
        ],
        "facts": [
            ["blocks", str(len(blocks))],
            ["acceptance \u03b1", fixed(alpha)],
            ["tokens a block, observed", fixed(observed, 2)],
            ["tokens a block, expected", fixed(expected_block_tokens(alpha, gamma), 2)],
        ],
        "formula": f"(1 \u2212 \u03b1^{gamma + 1}) / (1 \u2212 \u03b1)",
        "caution": "gamma adapts: the expectation is for the longest block."
        if trace.config.adaptive_gamma
        else "",
    }


def _rule(trace: Trace) -> EasdRule | None:
    return easd_rule(trace) if block_strategy(trace.config).reads_entropies else None


def block_note(block: Block) -> str:
    """How many tokens were drafted, accepted, rejected and added."""
    parts = [f"{len(block.drafted)} drafted", f"{block.n_accepted} accepted"]
    rejected = sum(d.outcome in ("rejected", "overridden") for d in block.decisions)
    if rejected:
        parts.append(f"{rejected} {block.decisions[block.n_accepted].outcome}")
    if block.correction is not None:
        parts.append("1 bonus" if block.correction.kind == "bonus" else "1 by the target")
    return ", ".join(parts)


def _rule_words(rule: EasdRule) -> str:
    return (
        f"doubtful where the draft\u2019s entropy reaches {nats(rule.draft_entropy)} nat, the "
        f"target\u2019s {nats(rule.target_entropy)} nat and the overlap {fixed(rule.overlap, 2)}"
    )


def _numbers(decision: Decision, rule: EasdRule | None) -> list[dict[str, Any]]:
    """Each number of a judged token with what it is, and whether it reaches a bound of `easd`."""
    numbers = [
        _number("q(x)", "the draft\u2019s chance", significant(decision.draft_prob)),
        _number("p(x)", "the target\u2019s chance", significant(decision.target_prob)),
        _number("ratio", "min(1, p / q)", fixed(decision.ratio)),
        _number("u", "drawn from 0 to 1", _uniform(decision)),
    ]
    if rule is None:
        return numbers
    return [
        *numbers,
        _bounded("draft entropy", "nat", decision.draft_entropy, rule.draft_entropy),
        _bounded("target entropy", "nat", decision.target_entropy, rule.target_entropy),
        _bounded("overlap", f"of the top {rule.top_n}", decision.overlap, rule.overlap),
    ]


def _number(name: str, unit: str, text: str, high: bool = False) -> dict[str, Any]:
    return {"name": name, "unit": unit, "text": text, "high": high}


def _bounded(name: str, unit: str, value: float | None, bound: float) -> dict[str, Any]:
    text = "not measured" if value is None else nats(value)
    return _number(
        name, f"{unit}, high from {nats(bound)}", text, value is not None and value >= bound
    )


def _uniform(decision: Decision) -> str:
    return "greedy" if decision.uniform is None else fixed(decision.uniform)


def _sentence(kind: Kind, decision: Decision | None, greedy: bool) -> str:
    if decision is None:
        return "A token before it was not kept, so the rule never came to it."
    drawn = "" if decision.uniform is None else fixed(decision.uniform)
    if kind == "accepted":
        if greedy:
            return "It is the target\u2019s own likeliest token, so it was kept."
        return f"u {drawn} is below the ratio {fixed(decision.ratio)}, so it was kept."
    if kind == "rejected":
        if greedy:
            return "The target\u2019s likeliest token is another one, which stands in its place."
        return (
            f"u {drawn} is not below the ratio {fixed(decision.ratio)}, so the target drew another "
            "token from max(0, p \u2212 q)."
        )
    if kind == "overridden":
        return (
            "It passed the ratio, but both models are unsure and their likeliest tokens overlap: "
            "the target drew again from p without it."
        )
    return "It stands after a token that ended the run, so nothing became of it."


def _target_sentence(block: Block, greedy: bool) -> str:
    if block.correction is not None and block.correction.kind == "bonus":
        if not block.drafted:
            return "Nothing was drafted here: the target wrote this token."
        return "All drafted tokens were kept, so the target\u2019s pass gives one token more."
    if greedy:
        return "The target\u2019s likeliest token, in place of the one before it."
    return "Drawn by the target in place of the rejected token."


def _stretch(block: Block, trace: Trace) -> dict[str, Any]:
    """A block in the running text: what was accepted, what was cut, what the target added."""
    kept = join_pieces(block.drafted[: block.n_accepted], trace.pieces)
    cut = block.correction is not None and block.correction.kind == "corrected"
    return {
        "kept": _line(kept),
        "cut": visible(token_text(block.drafted[block.n_accepted], trace.pieces)) if cut else "",
        "added": ""
        if block.correction is None
        else _line(join_pieces((block.correction.token_id,), trace.pieces)),
        "kind": "" if block.correction is None else block.correction.kind,
    }


def _text(block: Block, trace: Trace) -> str:
    return _line(join_pieces(block.token_ids, trace.pieces))


def _line(text: str) -> str:
    return text.replace("\n", NEWLINE)
