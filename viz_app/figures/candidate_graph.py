"""The candidates of a step as a graph, laid out by networkx. Knows no session and no colours.

node      a distinct candidate; its area is how often it was drawn
edge      the similarity of two candidates; the wider, the more alike
hull      the frame around a cluster; two clusters stand side by side, more of them on a ring
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import networkx as nx

WIDTH, HEIGHT = 296.0, 176.0
CAPTION = 20.0
LARGEST, SMALLEST = 24.0, 7.0
_RING = 480.0
"""Length of the ring that clusters stand on."""
FEW = 5
"""Up to this many candidates every edge is drawn and labelled; above it only the alike ones."""


def candidate_graph(
    similarity: Sequence[Sequence[float]],
    clusters: Sequence[int],
    draws: Sequence[int],
    medoid: int,
) -> dict[str, Any]:
    """Nodes, edges and hulls in a box of WIDTH x HEIGHT.

    Args:
        similarity: symmetric [d, d], in [0, 1].
        clusters: cluster index per candidate.
        draws: how often each candidate was drawn.
        medoid: the candidate that stands for the draws; among many, only its edges are numbered.
    """
    graph = nx.Graph()
    for index, (cluster, count) in enumerate(zip(clusters, draws, strict=True)):
        graph.add_node(index, cluster=cluster, draws=count)
    for i in graph:
        for j in graph:
            if i < j:
                graph.add_edge(i, j, similarity=similarity[i][j])
    radius = _radii(draws, clusters)
    centres = _centres(graph, clusters)
    nodes = []
    for index in graph:
        members = [i for i in graph if clusters[i] == clusters[index]]
        x, y = centres[clusters[index]]
        right, down = _offset(members.index(index), len(members), centres)
        nodes.append(
            {
                "x": round(x + right, 1),
                "y": round(y + down, 1),
                "r": round(radius[index], 1),
                "cluster": clusters[index],
                "draws": draws[index],
            }
        )
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "nodes": nodes,
        "edges": _edges(graph, nodes, medoid),
        "hulls": _hulls(nodes, clusters, draws),
    }


def _centres(graph: nx.Graph, clusters: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Where each cluster stands: side by side where there are two, else on a ring."""
    meta = nx.Graph()
    meta.add_nodes_from(sorted(set(clusters)))
    middle = (HEIGHT - CAPTION) / 2
    if len(meta) <= 2:
        xs = [WIDTH / 2] if len(meta) == 1 else [72.0, 222.0]
        return {cluster: (x, middle) for cluster, x in zip(meta, xs, strict=True)}
    ring = nx.circular_layout(meta)
    xs = _stretched([-float(x) for x, _ in ring.values()], 50.0, WIDTH - 50.0)
    ys = _stretched([-float(y) for _, y in ring.values()], 32.0, HEIGHT - 32.0)
    return dict(zip(ring, zip(xs, ys, strict=True), strict=True))


def _stretched(values: Sequence[float], low: float, high: float) -> list[float]:
    """The values moved so that they fill [low, high]."""
    least, span = min(values), max(values) - min(values)
    return [low + (high - low) * (value - least) / span for value in values]


def _offset(
    rank: int, members: int, centres: Mapping[int, tuple[float, float]]
) -> tuple[float, float]:
    """Where a member stands in its cluster: in a column, or on a small ring if space is short."""
    if members == 1:
        return 0.0, 0.0
    if len(centres) <= 2 and members <= 5:
        return 0.0, -47.0 + 94.0 * rank / (members - 1)
    reach = 46.0
    if len(centres) > 2:
        nearest = min(math.dist(*pair) for pair in combinations(centres.values(), 2))
        reach = min(20.0, 0.3 * nearest)
    reach *= 1.0 if members > 2 else 0.9
    angle = 2 * math.pi * rank / members - math.pi / 2
    return reach * math.cos(angle), reach * math.sin(angle)


def _radii(draws: Sequence[int], clusters: Sequence[int]) -> list[float]:
    """Area by draws, shrunk until the largest cluster has room for all of its members."""
    crowd = max(clusters.count(cluster) for cluster in clusters)
    n_clusters = len(set(clusters))
    if n_clusters <= 2:
        room = 110.0 / (2.3 * crowd)
    else:
        # Neither the ring of clusters nor the small ring inside one may run together.
        room = min(_RING / (2.4 * n_clusters), 44.0 / (1.2 * crowd))
    radii = [16.0 * math.sqrt(count) for count in draws]
    shrink = min(1.0, min(LARGEST, room) / max(radii))
    return [max(radius * shrink, SMALLEST) for radius in radii]


def _edges(graph: nx.Graph, nodes: Sequence[dict[str, Any]], medoid: int) -> list[dict[str, Any]]:
    edges = []
    for i, j, data in graph.edges(data=True):
        value = data["similarity"]
        within = nodes[i]["cluster"] == nodes[j]["cluster"]
        if len(nodes) > FEW and not within:
            continue
        numbered = len(nodes) < FEW - 1 or medoid in (i, j)
        edges.append(
            {
                "from": i,
                "to": j,
                "width": round(0.75 + 4 * max(0.0, value - 0.6) / 0.4, 2),
                "text": f"{value:.3f}" if numbered and len(nodes) <= FEW else "",
                "within": within,
            }
        )
    return edges


def _hulls(
    nodes: Sequence[dict[str, Any]], clusters: Sequence[int], draws: Sequence[int]
) -> list[dict[str, Any]]:
    members: dict[int, list[int]] = defaultdict(list)
    for index, cluster in enumerate(clusters):
        members[cluster].append(index)
    total = sum(draws)
    hulls = []
    for cluster, indices in sorted(members.items()):
        left = min(nodes[i]["x"] - nodes[i]["r"] for i in indices) - 11
        right = max(nodes[i]["x"] + nodes[i]["r"] for i in indices) + 11
        top = min(nodes[i]["y"] - nodes[i]["r"] for i in indices) - 11
        bottom = max(nodes[i]["y"] + nodes[i]["r"] for i in indices) + 11
        hulls.append(
            {
                "cluster": cluster,
                "x": round(left, 1),
                "y": round(top, 1),
                "width": round(right - left, 1),
                "height": round(bottom - top, 1),
                "text": ""
                if len(members) > 2
                else f"{sum(draws[i] for i in indices)} of {total} draws",
            }
        )
    return hulls
