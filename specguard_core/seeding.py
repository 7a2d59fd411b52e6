"""Randomness with an address: the same place in the same run draws the same numbers, in any order.

slot       which of the k candidates of a step
attempt    0 for the first draw of a step, one more for each redraw
"""

import hashlib


def seed_for(
    run_seed: int, problem_id: str, chain: int, unit_index: int, slot: int, attempt: int
) -> int:
    """A seed in [0, 2**63), equal for equal addresses and unrelated for different ones."""
    address = f"{run_seed}\x1f{problem_id}\x1f{chain}\x1f{unit_index}\x1f{slot}\x1f{attempt}"
    digest = hashlib.blake2b(address.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
