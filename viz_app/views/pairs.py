"""The menu of pairs: what each is good for, which one is chosen, whether others may be named."""

from collections.abc import Sequence
from typing import Any

from viz_app.names import short_name
from viz_app.pairs import Offer


def pairs_view(
    chosen: tuple[str, str] | None,
    names: tuple[str, str],
    offers: Sequence[Offer],
    *,
    free: bool,
) -> dict[str, Any]:
    """`at_home`: whether the session's models are the page's own; a row for each offer."""
    return {
        "at_home": chosen is None,
        "free": free,
        "pairs": [
            {
                "sources": list(offer.sources),
                "name": " \u2192 ".join(map(short_name, offer.sources)),
                "text": offer.words,
                "chosen": tuple(map(short_name, offer.sources)) == names,
            }
            for offer in offers
        ],
    }
