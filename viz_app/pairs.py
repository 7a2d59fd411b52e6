"""The pairs of models that a page offers, and those it holds in memory. Knows no gradio.

home       the pair that the page was started with; it stays
guest      the one other pair that is held: the next one that is chosen takes its place
offer      a pair in the page's menu; where strangers come, no other can be chosen
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specguard_core import bundled
from specguard_core.commands.shell import fitting_preset
from specguard_core.errors import UsageError
from specguard_core.known_pairs import KNOWN_PAIRS
from specguard_core.types import Trace
from viz_app.names import full_name, short_name
from viz_app.work import Loaded, Pair

Sources = tuple[str, str]
"""Where a draft and a target come from: folders, hub ids, or an address for the target."""
BUNDLED: Sources = (str(bundled.DRAFT), str(bundled.TARGET))
GIGABYTE = 1e9


@dataclass(frozen=True, slots=True)
class Offer:
    """A pair and one phrase on it."""

    sources: Sources
    words: str


def offers_within(most_bytes: float) -> tuple[Offer, ...]:
    """The pair that ships, and the known ones whose weights in bfloat16 take no more than this."""
    ships = Offer(BUNDLED, "small arithmetic problems, at once and on any machine; it ships")
    known = [
        Offer((pair.draft.hub_id, pair.target.hub_id), f"{pair.good_for}; {size / GIGABYTE:.1f} GB")
        for pair in KNOWN_PAIRS
        if (size := pair.weight_bytes("bfloat16")) <= most_bytes
    ]
    return (ships, *known)


class Pairs:
    """The home pair, the offers, and the guest. listed_only: nothing but the offers can be chosen.

    `load` loads a pair by its sources; without it there is only the home pair.
    """

    def __init__(
        self,
        home: Pair,
        offers: Sequence[Offer] = (),
        load: Callable[[Sources], Loaded] | None = None,
        *,
        listed_only: bool = True,
    ) -> None:
        self.home = home
        self.offers = tuple(offers) if load is not None else ()
        self.listed_only = listed_only or load is None
        self._load = load
        self._lock = threading.Lock()
        self._guest: tuple[Sources, Pair] | None = None

    def of(self, sources: Sources | None) -> Pair:
        """The pair a session goes on with, None being home; the guest makes room for another."""
        pair = self.seen(sources)
        with self._lock:
            if sources is not None:
                self._guest = (sources, pair)
        return pair

    def seen(self, sources: Sources | None) -> Pair:
        """The same to look at: one that is not held is not loaded, and takes nobody's place."""
        if sources is None:
            return self.home
        with self._lock:
            if self._guest is not None and self._guest[0] == sources:
                return self._guest[1]
        return _pair(sources, self._load)

    def checked(self, draft: object, target: object) -> Sources | None:
        """What a visitor may choose; None is home.

        Raises:
            UsageError: no two names, or a pair that is not offered here.
        """
        if not (isinstance(draft, str) and isinstance(target, str) and draft and target):
            raise UsageError("expected a draft and a target, got none: name both models")
        sources = (draft.strip(), target.strip())
        named = (full_name(sources[0]), full_name(sources[1]))
        if named == self.home.sources:
            return None
        if self.listed_only and sources not in [offer.sources for offer in self.offers]:
            raise UsageError(
                f"expected models that this page offers, got {draft[:80]!r} and {target[:80]!r}: "
                "choose from its menu, or run the page yourself"
            )
        return sources


def made_by(trace: Trace | None, names: tuple[str, str]) -> bool:
    """Whether models of these names wrote a trace, so that they can go on with it."""
    if trace is None or trace.draft is None or trace.target is None:
        return False
    return (short_name(trace.draft.source), short_name(trace.target.source)) == names


def _pair(sources: Sources, load: Callable[[Sources], Loaded] | None) -> Pair:
    def loaded() -> Loaded:
        if load is None:
            raise UsageError("expected the models of this page, got others: choose its own")
        return load(sources)

    names = (short_name(sources[0]), short_name(sources[1]))
    named = (full_name(sources[0]), full_name(sources[1]))
    return Pair(loaded, names, named, preset=fitting_preset(*sources, None))
