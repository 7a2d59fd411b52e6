"""The branches of a session as a tree, laid out by networkx. Knows no session and no colours.

row        a branch; children stand under their parent, in the order they were made
column     a step; a branch begins at the step where it left its parent
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx


@dataclass(frozen=True, slots=True)
class Twig:
    """One branch: its name, its parent's (None: the first), where it left, its steps."""

    name: str
    parent: str | None
    forked_at: int
    n_steps: int


def branch_tree(twigs: Sequence[Twig]) -> list[dict[str, Any]]:
    """Per branch, in drawing order: its row, first and last column, and its parent's row."""
    graph = nx.DiGraph()
    graph.add_nodes_from(twig.name for twig in twigs)
    graph.add_edges_from((twig.parent, twig.name) for twig in twigs if twig.parent is not None)
    by_name = {twig.name: twig for twig in twigs}
    roots = [twig.name for twig in twigs if twig.parent is None]
    order = [name for root in roots for name in nx.dfs_preorder_nodes(graph, root)]
    rows = {name: row for row, name in enumerate(order)}
    return [
        {
            "name": name,
            "row": rows[name],
            "first": by_name[name].forked_at,
            "last": by_name[name].n_steps,
            "parent_row": None if by_name[name].parent is None else rows[by_name[name].parent],
        }
        for name in order
    ]
