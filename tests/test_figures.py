"""Pictures are functions of values: everything lies inside its frame, nothing lies on another."""

import json
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from viz_app.figures.branch_tree import Twig, branch_tree
from viz_app.figures.candidate_graph import HEIGHT, WIDTH, candidate_graph

draws = st.lists(st.integers(1, 4), min_size=2, max_size=16)


@st.composite
def steps(draw):
    counts = draw(draws)
    clusters = [draw(st.integers(0, index)) for index in range(len(counts))]
    order = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    return counts, [order[cluster] for cluster in clusters]


def graph_of(counts, clusters):
    size = len(counts)
    similarity = [[1.0 if i == j else 0.7 for j in range(size)] for i in range(size)]
    return candidate_graph(similarity, clusters, counts, medoid=0)


@given(steps())
def test_candidates_lie_inside_the_frame_and_apart(step):
    counts, clusters = step
    graph = graph_of(counts, clusters)
    for node in graph["nodes"]:
        assert 0 <= node["x"] <= WIDTH
        assert 0 <= node["y"] <= HEIGHT
    for one, other in combinations(graph["nodes"], 2):
        assert (one["x"] - other["x"]) ** 2 + (one["y"] - other["y"]) ** 2 > 25
    json.dumps(graph, allow_nan=False)


@given(steps())
def test_a_hull_holds_its_cluster_and_counts_its_draws(step):
    counts, clusters = step
    graph = graph_of(counts, clusters)
    assert [hull["cluster"] for hull in graph["hulls"]] == sorted(set(clusters))
    for hull in graph["hulls"]:
        members = [n for n in graph["nodes"] if n["cluster"] == hull["cluster"]]
        for node in members:
            assert hull["x"] <= node["x"] - node["r"] + 1e-6
            assert node["x"] + node["r"] <= hull["x"] + hull["width"] + 1e-6
        if hull["text"]:
            total = sum(node["draws"] for node in members)
            assert hull["text"].startswith(f"{total} of ")


def test_more_draws_make_a_larger_node_and_more_likeness_a_wider_edge():
    graph = candidate_graph([[1, 0.9, 0.6], [0.9, 1, 0.6], [0.6, 0.6, 1]], [0, 0, 1], [3, 1, 1], 0)
    radii = [node["r"] for node in graph["nodes"]]
    assert radii[0] > radii[1] == radii[2]
    widths = {(edge["from"], edge["to"]): edge["width"] for edge in graph["edges"]}
    assert widths[0, 1] > widths[0, 2]


def test_children_follow_their_parent_in_the_tree():
    twigs = [
        Twig("a", None, 0, 4),
        Twig("b", "a", 1, 3),
        Twig("c", "a", 2, 4),
        Twig("d", "b", 2, 2),
    ]
    rows = branch_tree(twigs)
    assert [row["name"] for row in rows] == ["a", "b", "d", "c"]
    assert all(first["row"] < second["row"] for first, second in pairwise(rows))
    assert rows[2]["parent_row"] == rows[1]["row"]
