"""The page on a scripted pair, served for tests: `python tests/browser/scripted_page.py --port N`.

What the question says decides how the pair behaves: "slowly" takes its time over every token, and
"too large" runs out of memory at the third step, once.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from specguard_core.backends.scripted import (
    ScriptedModel,
    ScriptedStep,
    ScriptedVocabulary,
    scripted_info,
)
from specguard_core.config import DecodeConfig
from specguard_core.lm import Models
from specguard_core.text import join_pieces
from viz_app import theme
from viz_app.layout import build
from viz_app.pairs import Pairs
from viz_app.session import Problem, Session
from viz_app.work import Loaded, Pair

STEPS = ("4 * 6 = 24.\n\n", "23 + 24 = 47.\n\n", "47 - 15 = 33.\n\n", "That leaves 32.\n\n")
ANSWER = "So \\boxed{32}."
SAID = ["".join(STEPS[:count]) for count in range(len(STEPS) + 1)]
# Sure of the first two steps, of two minds in the second; the third is wrong and barely passes; the
# fourth is refused, and the target's own stands for it.
DRAFT = {
    SAID[0]: [ScriptedStep(STEPS[0], -0.2)],
    SAID[1]: [ScriptedStep(STEPS[1], -0.2), ScriptedStep("No idea at all.\n\n", -0.9)],
    SAID[2]: [ScriptedStep(STEPS[2], -4.4)],
    SAID[3]: [ScriptedStep("Who knows?\n\n", -8.0)],
    SAID[4]: [ScriptedStep(ANSWER, -0.2)],
}
TARGET = {
    said: [ScriptedStep(text, -0.1)] for said, text in zip(SAID, [*STEPS, ANSWER], strict=True)
}
CONFIG = DecodeConfig(
    n_candidates=2, threshold=0.5, weights=(("confidence", 0.9), ("grounding", 0.1))
)
COINS = "Ana has 23 coins and 4 bags of 6. She gives 15 away. How many are left?"
PROBLEMS = (
    Problem(COINS, "32", "coins"),
    Problem(f"Slowly! {COINS}", "32", "slow"),
    Problem(f"Too large. {COINS}", "32", "large"),
)
SECONDS_A_TOKEN = 0.3


class Moody(ScriptedModel):
    """Recites like its parent, in the mood that the question asks for."""

    tired = False

    def sample_steps(self, requests, *, on_token=None, should_stop=None):
        vocabulary = self.vocabulary
        pieces = {i: vocabulary.piece(i) for i in range(len(vocabulary))}
        text = join_pieces(requests[0].prefix, pieces)
        if "Too large" in text and text.endswith(STEPS[1]) and not self.tired:
            self.tired = True
            raise MemoryError

        def patient(n_tokens):
            if "Slowly" in text:
                time.sleep(SECONDS_A_TOKEN)
            if on_token is not None:
                on_token(n_tokens)

        return super().sample_steps(requests, on_token=patient, should_stop=should_stop)


def load(draft_source: str = "draft", target_source: str = "target") -> Loaded:
    """A fresh pair that says it came from there."""
    draft = Moody(DRAFT, info=replace(scripted_info("draft"), source=draft_source))
    target = Moody(TARGET, info=replace(scripted_info("target"), source=target_source))
    return Loaded(Models(ScriptedVocabulary(), draft, target), None)


def main(port: int | None) -> None:
    """Serve until killed."""
    pairs = Pairs(Pair(load, ("draft", "target")))
    page = build(pairs, PROBLEMS, opening=Session(PROBLEMS[0], CONFIG))
    page.launch(
        server_name="127.0.0.1",
        server_port=port,
        theme=theme.theme(),
        head=theme.head(),
        footer_links=[],
        run_history=False,
        show_error=True,
        ssr_mode=False,
    )


if __name__ == "__main__":
    main(int(sys.argv[sys.argv.index("--port") + 1]) or None)
