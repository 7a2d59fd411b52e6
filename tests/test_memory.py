"""A server's memory goes back to the system: shown on a process of its own."""

import subprocess
import sys

import pytest

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


def held(given_back: bool) -> float:
    """MiB more than before once threads have made large answers and let go of them."""
    ran = subprocess.run(
        [sys.executable, "-c", HELD, "yes" if given_back else "no"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has these settings")
def test_what_answers_took_is_given_back():
    assert held(True) < 30
    assert held(False) > 2 * held(True)
