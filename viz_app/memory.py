"""What a server gives back of its memory. Knows no model and no gradio.

arena      where a thread of the C library gets small blocks; what is free in one arena is no use to
           a thread of another, and a server has many threads
large      a block that is got from the system by itself, and goes back to it when it is freed. The
           library takes more and more sizes for small, up to the largest it saw freed: after one
           long answer all answers lie among small blocks, and leave holes that are never given back
circle     objects that hold each other, as those of gradio do, and with them the answer they
           carried: only a search finds out that nobody else does
set aside  left out of that search. Python searches everything once a quarter as much has come as
           was there; the libraries alone are a million objects, so that it hardly ever would
"""

import ctypes
import gc
import sys

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # numbers of glibc's mallopt
_LARGE_BYTES = 1 << 18
_MOST_ARENAS = 2


def give_back() -> bool:
    """Keep few arenas, and the size that is large as it is; False where there is no glibc.

    Before threads begin: arenas that are there stay.
    """
    if not sys.platform.startswith("linux"):
        return False
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is None:
        return False
    return bool(setting(_ARENA_MAX, _MOST_ARENAS)) and bool(setting(_MMAP_THRESHOLD, _LARGE_BYTES))


def set_aside() -> None:
    """From now on search only what comes after: what is there now stays, and is much."""
    gc.collect()
    gc.freeze()
    # A quarter of what the latest search left: of nearly nothing, now.
    gc.collect()


def search_all() -> None:
    """Give back what lies in circles anywhere, such as models that were exchanged for others."""
    gc.unfreeze()
    gc.collect()
