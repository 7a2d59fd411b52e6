"""A hand-made run for tests of the page: no model made it, every number can be checked by eye.

Four steps. In the third, two of four draws write ` 9` where ` 15` belongs; the least
log-probability -2.31 and the least grounding 0.580 give 0.3 x 0.220 + 0.7 x 0.490 = 0.409 < 0.7,
and the target writes the step.
"""

import math
from collections.abc import Sequence

from specguard_core.config import DecodeConfig
from specguard_core.readings import SIGNALS, Scales
from specguard_core.types import (
    Alternative,
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    Cost,
    Finish,
    Heatmap,
    ModelInfo,
    Outcome,
    PromptSegment,
    RoleCost,
    Selection,
    Step,
    TokenSignal,
    Trace,
)
from specguard_core.verification import verify

QUESTION = (
    "Ana has 23 coins. Leo has 9 coins. Ana buys 4 bags with 6 coins in each, then gives 15 coins "
    "to Leo. How many coins does Ana have now?"
)
CONFIG = DecodeConfig(seed=7)
BOUNDS = {"confidence": Bounds(-2.86, -0.36), "grounding": Bounds(0.384, 0.784)}


def info(name: str, n_layers: int) -> ModelInfo:
    return ModelInfo(
        name=name,
        source=name,
        revision=None,
        architecture="Llama",
        n_parameters=n_layers * 100_000,
        n_layers=n_layers,
        vocabulary_size=512,
        context_length=1024,
        dtype="float32",
        device="cpu",
        grounding="captured",
        rollback="crop",
    )


class Lexicon:
    """Token ids handed out as pieces appear."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}

    def __call__(self, piece: str | bytes) -> int:
        data = piece if isinstance(piece, bytes) else piece.encode()
        return self.ids.setdefault(data, len(self.ids))

    @property
    def pieces(self) -> dict[int, bytes]:
        return {token_id: data for data, token_id in self.ids.items()}


def split(text: str) -> list[str]:
    """Words with the space before them, digits and marks by themselves."""
    pieces: list[str] = []
    for character in text:
        glued = bool(pieces) and character.isalpha() and pieces[-1][-1].isalpha()
        spaced = bool(pieces) and pieces[-1] == " "
        ended = bool(pieces) and character == "\n" and pieces[-1][0] in ".\n"
        if glued or spaced or ended:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def candidate(
    lexicon: Lexicon,
    text: str,
    *,
    logprobs: Sequence[float] | float = -0.1,
    groundings: Sequence[float] | float = 0.75,
    n_segments: int = 6,
    draws: tuple[int, ...] = (0,),
    alternatives: dict[int, Sequence[tuple[str, float]]] | None = None,
    shares: dict[int, Sequence[float]] | None = None,
    sampling: dict[int, float] | None = None,
    heatmap: Heatmap | None = None,
) -> Candidate:
    """A step whose tokens carry these readings; mass is spread evenly where `shares` is silent."""
    pieces = split(text) if text.endswith("\n\n") else [*split(text), "</s>"]
    tokens = []
    for index, piece in enumerate(pieces):
        logprob = logprobs if isinstance(logprobs, float) else logprobs[index]
        grounding = groundings if isinstance(groundings, float) else groundings[index]
        known = (alternatives or {}).get(index, ())
        even = tuple(grounding / n_segments for _ in range(n_segments))
        tokens.append(
            TokenSignal(
                token_id=lexicon(piece),
                logprob=logprob,
                sampling_logprob=(sampling or {}).get(index, logprob / 2),
                entropy=min(-logprob * 0.85 + 0.02, 2.2),
                alternatives=tuple(Alternative(lexicon(p), math.log(q)) for p, q in known),
                attribution=tuple((shares or {}).get(index, even)),
            )
        )
    stop = "delimiter" if text.endswith("\n\n") else "eos"
    return Candidate(tuple(tokens), stop, "sampled", draws, heatmap)


def scales() -> Scales:
    return Scales(calibration(), 4, 5)


def calibration() -> Calibration:
    knobs = {knob for signal in SIGNALS.values() for knob in signal.knobs}
    settings = {name: getattr(CONFIG, name) for name in sorted(knobs)}
    return Calibration(
        "abacus-draft, abacus-target", 100, 380, (CalibrationTable(settings, BOUNDS),)
    )


def coin_trace() -> Trace:
    """The finished run of the four steps above."""
    lexicon = Lexicon()
    prompt = _prompt(lexicon)
    steps = [
        _accepted(lexicon, 0, "The bags hold 4 * 6 = 24 coins.\n\n", -0.42, 0.751),
        _accepted(lexicon, 1, "Ana now has 23 + 24 = 47 coins.\n\n", -0.71, 0.696),
        _refused(lexicon, sum(len(s.token_ids) for s in prompt)),
        _accepted(lexicon, 3, "The answer is \\boxed{32}.", -0.39, 0.664),
    ]
    return Trace(
        problem=QUESTION,
        problem_id="coins",
        gold="32",
        prompt_segments=prompt,
        prompt_template="chat template",
        pieces=lexicon.pieces,
        tokenizer_hash="0" * 64,
        draft=info("abacus-draft", 4),
        target=info("abacus-target", 5),
        config=CONFIG,
        calibration=calibration(),
        units=tuple(steps),
        status="finished",
        finish=Finish("answer", "32"),
    )


def _prompt(lexicon: Lexicon) -> tuple[PromptSegment, ...]:
    sentences = [part + ("." if i < 3 else "?") for i, part in enumerate(_sentences())]
    question = [
        PromptSegment("question", tuple(lexicon(p) for p in split((" " if i else "") + sentence)))
        for i, sentence in enumerate(sentences)
    ]
    template = PromptSegment("template", (lexicon("<s>"), lexicon("<|user|>")))
    assistant = PromptSegment("template", (lexicon("<|assistant|>"),))
    return (template, *question, assistant)


def _sentences() -> list[str]:
    return [part.strip() for part in QUESTION.rstrip("?").split(".")]


def _cost(kept: int, discarded: int, written: int, read: int) -> Cost:
    roles = {
        "draft_kept": RoleCost(kept, kept * 0.58),
        "draft_discarded": RoleCost(discarded, discarded * 0.58),
        "target_written": RoleCost(written, written * 4.1),
        "verification": RoleCost(read, read * 0.14),
        "selection": RoleCost(0, 0.5),
    }
    return Cost(roles, target_passes=written + (read > 0), target_positions=written + read)


def _accepted(lexicon: Lexicon, index: int, text: str, least: float, grounding: float) -> Step:
    n = len(split(text)) + (not text.endswith("\n\n"))
    logprobs = [least if i == n // 2 else -0.05 - 0.02 * (i % 5) for i in range(n)]
    groundings = [
        grounding if i == n - 3 else min(grounding + 0.2 - 0.01 * i, 0.86) for i in range(n)
    ]
    one = candidate(
        lexicon,
        text,
        logprobs=logprobs,
        groundings=[max(g, grounding) for g in groundings],
        n_segments=6 + index,
        draws=(0, 1, 2, 3),
    )
    selection = Selection({"lexical": ((1.0,),), "numeric": ((1.0,),)}, (0,), (1.0,), 0, "lexical")
    verdict = verify([one], selection, CONFIG, scales=scales(), pieces=lexicon.pieces)
    return Step(index, (one,), selection, verdict, Outcome("draft"), None, _cost(n, 3 * n, 0, n))


# Step 3 of the coins: template, four sentences, template, step 1, step 2.
_NINE_SHARES = (0.020, 0.038, 0.352, 0.147, 0.029, 0.004, 0.026, 0.075)
_NINE = (
    (" 1", 0.386),
    (" 9", 0.0993),
    (" 2", 0.0942),
    (" 4", 0.0871),
    (" 6", 0.0804),
    (" 3", 0.0733),
)
_LOGPROBS = (
    -0.12,
    -0.62,
    -0.48,
    -0.06,
    -0.09,
    -0.04,
    -0.21,
    -2.31,
    -0.05,
    -0.14,
    -0.33,
    -0.03,
    -0.02,
)
_GROUNDINGS = (
    0.832,
    0.801,
    0.776,
    0.759,
    0.742,
    0.718,
    0.683,
    0.691,
    0.627,
    0.604,
    0.58,
    0.612,
    0.566,
)


def _refused(lexicon: Lexicon, n_prompt: int) -> Step:
    steps = "The bags hold 4 * 6 = 24 coins.\n\n", "Ana now has 23 + 24 = 47 coins.\n\n"
    n_context = n_prompt + sum(len(split(text)) for text in steps)
    wrong = candidate(
        lexicon,
        "Ana is left with 47 - 9 = 38 coins.\n\n",
        logprobs=_LOGPROBS,
        groundings=_GROUNDINGS,
        n_segments=8,
        draws=(0, 2),
        alternatives={7: _NINE},
        shares={7: _NINE_SHARES},
        sampling={7: math.log(0.0956)},
        heatmap=_heatmap(n_context),
    )
    right = candidate(
        lexicon,
        "Ana is left with 47 - 15 = 32 coins.\n\n",
        logprobs=[-0.952 if i == 8 else -0.21 for i in range(14)],
        groundings=0.7275,
        n_segments=8,
        draws=(1,),
    )
    slip = candidate(
        lexicon,
        "Ana is left with 47 - 15 = 31 coins.\n\n",
        logprobs=[-1.56 if i == 11 else -0.25 for i in range(14)],
        groundings=0.692,
        n_segments=8,
        draws=(3,),
    )
    matrix = ((1.0, 0.777, 0.772), (0.777, 1.0, 0.866), (0.772, 0.866, 1.0))
    numeric = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    selection = Selection(
        {"lexical": matrix, "numeric": numeric}, (0, 1, 1), (0.850, 0.806, 0.803), 0, "lexical"
    )
    candidates = (wrong, right, slip)
    verdict = verify(candidates, selection, CONFIG, scales=scales(), pieces=lexicon.pieces)
    written = candidate(
        lexicon, "Ana is left with 47 - 15 = 32 coins.\n\n", logprobs=-0.03, n_segments=8, draws=()
    )
    return Step(2, candidates, selection, verdict, Outcome("target"), written, _cost(0, 54, 14, 13))


def _heatmap(n_context: int) -> Heatmap:
    """Mass on every context token; the ninth position of the question stands out."""
    rows = [
        bytes(255 if (c - 10 - token) % 17 == 0 else (c * 7) % 60 for c in range(n_context))
        for token in range(12)
    ]
    return Heatmap(n_context, tuple(0.02 for _ in range(12)), b"".join(rows))
