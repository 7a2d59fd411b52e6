"""The candidates of one step: a card each, the graph of their similarity, and the matrix."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from specguard_core.errors import NotMeasured
from specguard_core.readings import counted_tokens, scales_of
from specguard_core.text import join_pieces
from specguard_core.types import Candidate, Selection, Verdict
from specguard_core.verification import verify
from viz_app.figures.candidate_graph import candidate_graph
from viz_app.session import WRITTEN, Look
from viz_app.sight import Sight
from viz_app.views.numbers import decimals_apart, fixed, level, nats
from viz_app.views.tokens import NEWLINE, step_text
from viz_app.whatif import WhatIf


def candidates_view(
    sight: Sight | None, look: Look, whatif: WhatIf | None = None
) -> dict[str, Any]:
    """Cards, graph and matrix at a stop; what is not known there yet is left out.

    With another similarity or cut set, the clusters and the medoid are those they would make of the
    recorded draws; letters stay as they were.
    """
    if sight is None:
        return {"empty": "Each step's candidates will stand here, by cluster."}
    if not sight.candidates and sight.written is None:
        return {"empty": "No candidates: under this strategy the target writes every step."}
    labels = candidate_labels(sight)
    order = display_order(sight)
    shown = shown_index(sight, look)
    as_run = sight.selection
    sight = selected_anew(sight, whatif)
    matrix = _matrix(sight)
    medoid = None if sight.selection is None else sight.selection.chosen
    graph = None
    if sight.selection is not None and matrix is not None and len(sight.candidates) > 1:
        counts = [len(candidate.draws) for candidate in sight.candidates]
        clusters = sight.selection.clusters
        graph = candidate_graph(matrix, clusters, counts, sight.selection.chosen)
    config = sight.trace.config
    return {
        "step": sight.step_index + 1,
        "n_draws": sum(len(candidate.draws) for candidate in sight.candidates),
        "method": None if sight.selection is None else sight.selection.method,
        "methods": list(sight.similarity),
        "cut": config.cluster_similarity,
        "turned": None
        if sight.selection is as_run or as_run is None
        else _turned(as_run, sight, labels),
        "labels": labels,
        "medoid": medoid,
        "shown": shown,
        "graph": graph,
        "matrix": None
        if matrix is None
        else _matrix_cells([[matrix[i][j] for j in order] for i in order]),
        "order": order,
        "cards": [_card(sight, index, labels[index]) for index in order],
        "written": _written_card(sight, labels),
        "pending": _pending(sight),
    }


def selected_anew(sight: Sight, whatif: WhatIf | None) -> Sight:
    """The sight as the similarity and cut that are set would have it; itself where they are not."""
    regate = None if whatif is None else whatif.regate
    if whatif is None or regate is None or sight.selection is None or sight.verdict is None:
        return sight
    selection = regate.selections[sight.step_index]
    config = replace(
        sight.trace.config,
        selection_method=whatif.config.selection_method,
        cluster_similarity=whatif.config.cluster_similarity,
    )
    if selection is None or config == sight.trace.config:
        return sight
    other = replace(sight, selection=selection, trace=replace(sight.trace, config=config))
    return replace(other, verdict=verdict_if_chosen(other, selection.chosen))


def _turned(as_run: Selection, sight: Sight, labels: Sequence[str]) -> str:
    """What another similarity or cut makes of the draws, in words."""
    if sight.selection is None or sight.selection.chosen == as_run.chosen:
        return "as set: the same medoid"
    return f"as set: {labels[sight.selection.chosen]}, not {labels[as_run.chosen]}"


def candidate_labels(sight: Sight) -> list[str]:
    """A, B1, B2: a letter per cluster, numbered where it holds several; plain numbers before."""
    selection = sight.selection
    if selection is None:
        return [str(index + 1) for index in range(len(sight.candidates))]
    sizes = Counter(selection.clusters)
    seen: Counter[int] = Counter()
    labels = [""] * len(sight.candidates)
    for index in display_order(sight):
        cluster = selection.clusters[index]
        seen[cluster] += 1
        number = str(seen[cluster]) if sizes[cluster] > 1 else ""
        labels[index] = cluster_letter(cluster) + number
    return labels


def display_order(sight: Sight) -> list[int]:
    """Candidates as they are listed: by cluster, the medoid first in its own, then as drawn."""
    selection = sight.selection
    if selection is None:
        return list(range(len(sight.candidates)))
    clusters, medoid = selection.clusters, selection.chosen
    return sorted(range(len(sight.candidates)), key=lambda i: (clusters[i], i != medoid, i))


def cluster_letter(cluster: int) -> str:
    """A to Z, then AA, AB, ..."""
    letters = ""
    number = cluster
    while number >= 0:
        letters = chr(ord("A") + number % 26) + letters
        number = number // 26 - 1
    return letters


def shown_index(sight: Sight, look: Look) -> int:
    """The candidate whose evidence is shown, WRITTEN for the target's step."""
    if look.candidate is not None:
        inside = 0 <= look.candidate < len(sight.candidates)
        if inside or (look.candidate == WRITTEN and sight.written is not None):
            return look.candidate
    judged = sight.judged_index
    return judged if judged is not None else (0 if sight.candidates else WRITTEN)


def shown_name(sight: Sight, look: Look) -> str:
    """The words for what is shown: "candidate A", "target's step"."""
    index = shown_index(sight, look)
    if index != WRITTEN:
        return f"candidate {candidate_labels(sight)[index]}"
    edited = sight.outcome is not None and sight.outcome.source == "edited"
    return "your step" if edited else "target\u2019s step"


def verdict_if_chosen(sight: Sight, index: int) -> Verdict | None:
    """What the rule would say of another candidate; None where a weighted signal lacks."""
    trace = sight.trace
    if sight.selection is None:
        return sight.verdict
    selection: Selection = replace(sight.selection, chosen=index)
    try:
        return verify(
            sight.candidates,
            selection,
            trace.config,
            scales=scales_of(trace),
            pieces=trace.pieces,
        )
    except NotMeasured:
        return None


def difference(text: str, base: str) -> list[dict[str, str]]:
    """The text by words, marked against base: same, cut (only in base) or new (only in text)."""
    old, new = _words(base), _words(text)
    parts: list[dict[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append({"kind": "same", "text": "".join(new[c:d])})
            continue
        if b > a:
            parts.append({"kind": "cut", "text": "".join(old[a:b])})
        if d > c:
            parts.append({"kind": "new", "text": "".join(new[c:d])})
    return parts


def _words(text: str) -> list[str]:
    words: list[str] = []
    for character in text:
        alike = bool(words) and character.isalnum() and words[-1][-1].isalnum()
        if alike:
            words[-1] += character
        else:
            words.append(character)
    return words


def _card(sight: Sight, index: int, label: str) -> dict[str, Any]:
    candidate = sight.candidates[index]
    pieces = sight.trace.pieces
    selection = sight.selection
    medoid = None if selection is None else sight.candidates[selection.chosen]
    text = step_text(candidate, pieces)
    is_medoid = selection is not None and selection.chosen == index
    verdict = sight.verdict if is_medoid else _other_verdict(sight, index)
    least = _least_logprob(candidate, sight)
    mean = candidate.mean_logprob
    consistency = None if selection is None else selection.consistency[index]
    score = None
    if verdict is not None:
        decimals = decimals_apart(verdict.score, verdict.threshold)
        score = {"text": fixed(verdict.score, decimals), "accepted": verdict.accepted}
    base = text if medoid is None or is_medoid else step_text(medoid, pieces)
    return {
        "index": index,
        "label": label,
        "cluster": None if selection is None else selection.clusters[index],
        "draws": _draws(candidate),
        "medoid": is_medoid and len(sight.candidates) > 1,
        "score_label": "score" if is_medoid or selection is None else "if chosen",
        "score": score,
        "text": difference(text, base),
        "facts": [
            ["mean", "not measured" if mean is None else nats(mean)],
            ["least", "not measured" if least is None else nats(least)],
            ["consistency", "" if consistency is None else fixed(consistency)],
        ],
    }


def _other_verdict(sight: Sight, index: int) -> Verdict | None:
    return verdict_if_chosen(sight, index) if sight.verdict is not None else None


def _written_card(sight: Sight, labels: Sequence[str]) -> dict[str, Any] | None:
    written = sight.written
    if written is None:
        return None
    pieces = sight.trace.pieces
    text = step_text(written, pieces)
    equal = [
        label
        for label, candidate in zip(labels, sight.candidates, strict=True)
        if step_text(candidate, pieces) == text
    ]
    outcome = sight.outcome
    by, n_kept = "Target wrote", 0 if outcome is None else outcome.n_kept
    if outcome is not None and outcome.source == "edited":
        by = "You wrote"
    parts = [{"kind": "same", "text": text}]
    if n_kept:
        by = f"Target wrote on from token {n_kept + 1}"
        drafted = join_pieces(written.token_ids[:n_kept], pieces).lstrip().replace("\n", NEWLINE)
        # A character that both wrote a part of is shown as the target's.
        begun = drafted.rstrip("\ufffd")
        parts = [{"kind": "kept", "text": begun}, {"kind": "same", "text": text[len(begun) :]}]
    return {
        "index": WRITTEN,
        "title": by,
        "note": f"equals {equal[0]}" if equal else "",
        "text": parts,
    }


def _pending(sight: Sight) -> str:
    if sight.phase == "sample":
        return "not selected yet"
    return "not judged yet" if sight.phase == "select" else ""


def _draws(candidate: Candidate) -> str:
    if not candidate.draws:
        return ""
    numbers = ", ".join(str(slot + 1) for slot in candidate.draws)
    return f"draw {numbers}" if len(candidate.draws) == 1 else f"draws {numbers}"


def _least_logprob(candidate: Candidate, sight: Sight) -> float | None:
    pieces: Mapping[int, bytes] = sight.trace.pieces
    values = [
        candidate.tokens[i].logprob for i in counted_tokens(candidate, sight.trace.config, pieces)
    ]
    measured = [value for value in values if value is not None]
    return min(measured) if len(measured) == len(values) else None


def _matrix(sight: Sight) -> tuple[tuple[float, ...], ...] | None:
    if sight.selection is None:
        return None
    return sight.similarity.get(sight.selection.method)


def _matrix_cells(matrix: Sequence[Sequence[float]]) -> list[list[dict[str, Any]]]:
    lowest = min((value for row in matrix for value in row), default=0.0)
    span = max(1 - lowest, 0.2)
    return [
        [
            {
                "text": "1" if i == j else fixed(value),
                "level": level(1 - (1 - value) / span * 0.6),
            }
            for j, value in enumerate(row)
        ]
        for i, row in enumerate(matrix)
    ]
