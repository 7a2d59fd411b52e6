"""The pairs that `models` offers to begin with."""

from specguard_core.known_pairs import KNOWN_PAIRS
from tests.bench import Bench


def test_each_pair_is_named_once_and_drafts_with_the_smaller_model():
    named = {(pair.draft.hub_id, pair.target.hub_id) for pair in KNOWN_PAIRS}
    assert len(named) == len(KNOWN_PAIRS)
    assert all(p.draft.n_parameters < p.target.n_parameters for p in KNOWN_PAIRS)


def test_weights_take_two_bytes_a_parameter_in_bfloat16_and_four_in_float32():
    for pair in KNOWN_PAIRS:
        total = pair.draft.n_parameters + pair.target.n_parameters
        assert pair.weight_bytes("bfloat16") == 2 * total
        assert pair.weight_bytes("float32") == 4 * total


def test_models_without_a_name_lists_them_lightest_first():
    run = Bench()("models")
    rows = run.out.splitlines()[1:]
    assert run.code == 0
    assert len(rows) == len(KNOWN_PAIRS)
    lightest = min(KNOWN_PAIRS, key=lambda pair: pair.weight_bytes("bfloat16"))
    assert rows[0].startswith(f"{lightest.draft.hub_id} {lightest.target.hub_id}")
    assert '"good_for"' in Bench()("models", "--json").out
