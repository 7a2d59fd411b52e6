"""A server's memory goes back to the system: shown on a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HELD = """
import psutil, sys, threading
from viz_app.memory import give_back

if sys.argv[1] == "yes":
    assert give_back()
threading.stack_size(1 << 20)
resident = lambda: psutil.Process().memory_info().rss / 2**20
kept = []
def answer():
    for _ in range(40):
        large = bytes(600_000)
        kept.append(bytes(5_000))
        held.append(large)
before = resident()
for _ in range(3):
    held = []
    workers = [threading.Thread(target=answer) for _ in range(8)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    del held
print(resident() - before)
"""


def grown(script: str, mended: bool) -> float:
    """MiB more than before, as the script says at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", script, "yes" if mended else "no"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has these settings")
def test_what_answers_took_is_given_back():
    assert grown(HELD, True) < 30
    assert grown(HELD, False) > 2 * grown(HELD, True)


CIRCLES = """
import gc, psutil, sys
from viz_app.memory import search_all, set_aside

class Answer:
    pass

def grown_old(n_bytes):
    made = [Answer() for _ in range(500)]
    for one in made:
        one.itself, one.text = one, "x" * n_bytes
    gc.collect(1)  # as old as what is looked at last

libraries = [[number] for number in range(1_000_000)]
gc.collect()
if sys.argv[1] == "yes":
    set_aside()
resident = lambda: psutil.Process().memory_info().rss / 2**20
before = resident()
for _ in range(20):
    grown_old(50_000)
    for _ in range(20):
        [[] for _ in range(1000)]  # what else a server does
print(resident() - before)
"""


def test_answers_that_lie_in_circles_are_found_among_a_million_objects():
    assert grown(CIRCLES, True) < 150
    assert grown(CIRCLES, False) > 300


PANELS = """
import asyncio
import gradio as gr
from gradio.state_holder import SessionState
from viz_app.layout import build
from viz_app.pairs import Pairs
from viz_app.work import Pair

page = build(Pairs(Pair(lambda: None, ("small", "large"))), [])
driven = next(fn for fn in page.fns.values() if len(fn.outputs) == 4)
state = SessionState(page)

async def answered(numbers):
    for number in numbers:
        shown = iter([gr.skip() if number % 2 else f"answer {number}", gr.skip()])
        given = [None if block.stateful else next(shown) for block in driven.outputs]
        await page.postprocess_data(driven, given, state)
    return len(state.blocks_config.blocks), len(state.config_values)

async def main():
    assert await answered(range(2)) == await answered(range(2, 100))

asyncio.run(main())
"""


def test_a_visitor_s_panels_are_as_many_after_a_hundred_answers_as_before():
    ran = subprocess.run(
        [sys.executable, "-c", PANELS], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    assert not (ROOT / "viz_app" / "layout.pyi").exists()
