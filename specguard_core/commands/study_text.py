"""A study as Markdown: tables that stand in a README as they are. Knows no file and no model."""

from collections.abc import Iterator

from specguard_core.metrics import Interval
from specguard_core.study import CONTEXT_BIN_TOKENS, LENGTH_BIN_TOKENS, Operating, Study

LABELS = {
    "equation": "its equations hold",
    "answer": "the answer of its run is right",
    "target": "the target writes the same equations there",
}


def study_markdown(study: Study) -> str:
    """The report."""
    return "\n".join(_lines(study))


def _lines(study: Study) -> Iterator[str]:
    wrong = study.worths[0].n_wrong
    yield (
        f"{study.n_steps} judged steps of {study.n_problems} problems, {wrong} of them wrong. "
        f"A step is right when {LABELS[study.label]}; {study.n_unlabelled} more could not be told."
    )
    yield ""
    yield "| signal | steps | AUC | equal length | equal context | with length | with context |"
    yield "|---|---|---|---|---|---|---|"
    for worth in study.worths:
        figures = (
            _interval(worth.auc),
            _figure(worth.auc_at_length),
            _figure(worth.auc_at_context),
            _signed(worth.with_length),
            _signed(worth.with_context),
        )
        yield f"| {worth.signal} | {worth.n_right + worth.n_wrong} | {' | '.join(figures)} |"
    yield ""
    yield (
        "AUC: chance that a right step has the higher value, 0.5 is none; its 95 % interval draws "
        f"problems anew. Equal: within {LENGTH_BIN_TOKENS} tokens of length, "
        f"{CONTEXT_BIN_TOKENS} of context. The last two columns are rank correlations."
    )
    yield ""
    yield "| score | steps | share right |"
    yield "|---|---|---|"
    for near in study.reliability:
        yield f"| {near.score:.3f} | {near.count} | {_interval(near.right)} |"
    yield ""
    yield "| false accepts wanted | threshold | accepted | false accepts | false refusals |"
    yield "|---|---|---|---|---|"
    yield f"| as run | {_operating(study.now)} |"
    for rate, found in study.operating.items():
        told = "not measured | | | " if found is None else _operating(found)
        yield f"| at most {rate:.0%} | {told} |"


def _operating(found: Operating) -> str:
    shares = (found.accepted, found.false_accept, found.false_refuse)
    return " | ".join([f"{found.threshold:.3f}", *map(_share, shares)])


def _interval(found: Interval | None) -> str:
    if found is None:
        return "not measured"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "not measured" if value is None else f"{value:+.2f}".replace("-", "\u2212")


def _share(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"
