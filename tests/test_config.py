"""A config that exists is right; a wrong one is answered in one sentence that names the knob."""

import json
import math
from dataclasses import FrozenInstanceError, replace
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core import bundled
from specguard_core.commands.shell import fitting_preset
from specguard_core.config import (
    KNOB_TYPES,
    KNOBS,
    READING_NAMES,
    STRATEGY_NAMES,
    DecodeConfig,
    from_json,
    to_json,
)
from specguard_core.errors import ConfigError
from specguard_core.presets import (
    PRESETS,
    changed,
    default_preset,
    difference,
    preset,
    with_beta,
)
from specguard_core.strategies import STRATEGIES
from tests.builders import configured

NUMBERS = [name for name, knob in KNOBS.items() if KNOB_TYPES[name] in (int, float)]
CHOICES = [name for name in KNOBS if get_origin(KNOB_TYPES[name]) is Literal]


def within(name):
    """Any value a numeric knob takes."""
    low, high = KNOBS[name].low, KNOBS[name].high
    whole = KNOB_TYPES[name] is int
    return st.integers(int(low), int(high)) if whole else st.floats(low, high)


WEIGHTS = st.dictionaries(st.sampled_from(READING_NAMES), st.floats(0, 1), min_size=1).filter(
    lambda weights: any(weights.values())
)
CONFIGS = st.fixed_dictionaries(
    {"weights": WEIGHTS},
    optional={name: within(name) for name in NUMBERS}
    | {name: st.sampled_from(get_args(KNOB_TYPES[name])) for name in CHOICES}
    | {"renormalise": st.booleans(), "residual": st.booleans(), "system_prompt": st.text()},
).map(lambda values: configured(**values))


@given(CONFIGS)
def test_a_config_comes_back_from_json_as_it_was(config):
    assert from_json(json.loads(json.dumps(to_json(config), allow_nan=False))) == config


def test_a_knob_missing_from_a_file_keeps_its_default():
    assert from_json({"threshold": 0.5}) == replace(DecodeConfig(), threshold=0.5)
    assert from_json({"strategy": "rsd"}).reward_threshold == DecodeConfig().reward_threshold == 0.7


def test_every_knob_has_a_sentence_and_a_default_in_its_range():
    for name, knob in KNOBS.items():
        assert knob.sentence
        if name in NUMBERS:
            assert knob.low <= getattr(DecodeConfig(), name) <= knob.high


def test_the_defaults_are_the_papers_numbers_at_four_candidates():
    config = DecodeConfig()
    assert (config.n_candidates, preset("paper").n_candidates) == (4, 16)
    assert config.weight == {"confidence": 0.3, "grounding": 0.7}
    assert (config.threshold, config.rollout_layers, config.sparsify) == (0.7, 3, 0.01)
    assert (config.draft_temperature, config.draft_top_p) == (0.7, 0.8)
    assert (config.target_temperature, config.max_steps) == (0.0, 100)
    assert (config.delimiter, config.cluster_similarity) == ("\n\n", 0.8)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_numeric_knob_takes_both_ends_of_its_range_and_nothing_past_them(name):
    low, high = KNOBS[name].low, KNOBS[name].high
    whole = KNOB_TYPES[name] is int
    for end in (low, high):
        assert getattr(DecodeConfig(**{name: end}), name) == end
    step = 1 if whole else 1e-9
    for outside in (low - step, high + step):
        with pytest.raises(ConfigError, match=name):
            DecodeConfig(**{name: outside})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "hostile",
    [math.nan, math.inf, -math.inf, 10**400, -(10**5000), True, None, "1", [1], 1j, b"1", {}],
    ids=lambda value: type(value).__name__,
)
def test_a_numeric_knob_refuses_what_is_no_number_of_its_range(name, hostile):
    with pytest.raises(ConfigError, match=name):
        DecodeConfig(**{name: hostile})


def test_a_whole_knob_refuses_a_fraction():
    with pytest.raises(ConfigError, match=r"n_candidates to be a whole number, got 2\.0"):
        DecodeConfig(n_candidates=2.0)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("hostile", ["", "Specguard", None, 0, [], {}])
def test_a_choice_answers_an_unknown_value_with_the_menu(name, hostile):
    with pytest.raises(ConfigError) as refusal:
        DecodeConfig(**{name: hostile})
    assert all(choice in str(refusal.value) for choice in get_args(KNOB_TYPES[name]))


@pytest.mark.parametrize("name", ["renormalise", "residual", "include_boundary_token"])
@pytest.mark.parametrize("hostile", [0, 1, "true", None])
def test_a_switch_takes_only_true_and_false(name, hostile):
    with pytest.raises(ConfigError, match=name):
        DecodeConfig(**{name: hostile})


@pytest.mark.parametrize("name", ["delimiter", "system_prompt"])
@pytest.mark.parametrize("hostile", [None, 3, b"\n\n", ["\n\n"], "half of \ud83d"])
def test_a_text_knob_takes_only_text_that_every_tokenizer_can_read(name, hostile):
    with pytest.raises(ConfigError, match=name):
        DecodeConfig(**{name: hostile})


def test_a_delimiter_holds_some_text():
    with pytest.raises(ConfigError, match="delimiter"):
        DecodeConfig(delimiter="")
    assert DecodeConfig(system_prompt="").system_prompt == ""


@pytest.mark.parametrize(
    "hostile",
    [
        (),
        None,
        {"confidence": 1.0},
        [("confidence", 1.0)],
        ("confidence", 1.0),
        (("confidence",),),
        (("confidence", 1.0, 2.0),),
        (3,),
        (None,),
        ("ab",),
        (("truth", 1.0),),
        ((["confidence"], 1.0),),
        (("confidence", 0.5), ("confidence", 0.5)),
        (("confidence", 0.0), ("grounding", 0.0)),
        (("confidence", -0.1),),
        (("confidence", 1.5),),
        (("confidence", math.nan),),
        (("confidence", math.inf),),
        (("confidence", 10**400),),
        (("confidence", True),),
        (("confidence", "0.3"),),
        (("confidence", None),),
    ],
    ids=repr,
)
def test_weights_that_cannot_weigh_are_refused(hostile):
    with pytest.raises(ConfigError, match="weight"):
        DecodeConfig(weights=hostile)


def test_a_weight_of_zero_is_no_weight():
    assert configured(weights={"confidence": 0.0, "grounding": 0.5}).weight == {"grounding": 0.5}


def test_a_config_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        DecodeConfig().threshold = 0.1


@pytest.mark.parametrize(
    "foreign",
    [{"treshold": 0.5}, {"": 1}, {"weights": [["confidence", 1]]}, {"weights": None}, {"seed": {}}],
    ids=repr,
)
def test_a_foreign_config_is_refused(foreign):
    with pytest.raises(ConfigError):
        from_json(foreign)


def test_the_menu_of_strategies_is_their_table():
    assert tuple(STRATEGIES) == STRATEGY_NAMES


# Settings, as typed on a command line


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("threshold=0.8", "threshold", 0.8),
        (" threshold = 0.8 ", "threshold", 0.8),
        ("n_candidates=16", "n_candidates", 16),
        ("residual=no", "residual", False),
        ("renormalise=TRUE", "renormalise", True),
        (r"delimiter=\n\n\n", "delimiter", "\n\n\n"),
        ("system_prompt=a=b", "system_prompt", "a=b"),
        ("strategy=draft_only", "strategy", "draft_only"),
        ("beta=0.25", "weights", (("confidence", 0.25), ("grounding", 0.75))),
        (
            "weights=agreement:0.5, target_confidence:1",
            "weights",
            (("agreement", 0.5), ("target_confidence", 1.0)),
        ),
    ],
)
def test_a_setting_sets_its_knob_and_no_other(setting, name, value):
    config = changed(DecodeConfig(), [setting])
    assert difference(config, DecodeConfig()) in ({name: value}, {})
    assert getattr(config, name) == value


@pytest.mark.parametrize(
    "setting",
    [
        "threshold",
        "threshold=",
        "threshold=high",
        "threshold=nan",
        "threshold=1.02",
        "n_candidates=2.5",
        "n_candidates=" + "9" * 400,
        "n_candidates=" + "9" * 5000,
        "residual=perhaps",
        "strategy=rsd2",
        "beta=2",
        "beta=nan",
        "beta=",
        "weights=",
        "weights=confidence",
        "weights=confidence:a",
        "weights=confidence:1,confidence:1",
        "delimiter=",
        "=3",
        "",
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting):
    with pytest.raises(ConfigError):
        changed(DecodeConfig(), [setting])


def test_an_unknown_knob_is_answered_with_the_menu():
    with pytest.raises(ConfigError) as refusal:
        changed(DecodeConfig(), ["treshold=0.5"])
    assert all(name in str(refusal.value) for name in [*KNOBS, "beta", "'treshold'"])


def test_an_unknown_preset_is_answered_with_the_menu():
    with pytest.raises(ConfigError, match="paper, cpu, best"):
        preset("fast")


@given(st.floats(0, 1))
def test_beta_is_confidences_weight_and_the_rest_is_groundings(beta):
    weights = dict(with_beta(DecodeConfig(), beta).weights)
    assert weights["confidence"] == beta
    assert math.isclose(sum(weights.values()), 1, abs_tol=1e-11)


def test_beta_says_nothing_where_other_readings_carry_weight():
    with pytest.raises(ConfigError, match="target_confidence"):
        with_beta(configured(weights={"target_confidence": 1.0}), 0.3)


def test_later_settings_win_and_beta_follows_weights():
    config = changed(DecodeConfig(), ["weights=confidence:1", "beta=0.5", "beta=0.6"])
    assert config.weight == {"confidence": 0.6, "grounding": 0.4}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_differs_from_the_default_only_in_what_is_listed(name):
    config = preset(name)
    assert replace(DecodeConfig(), **difference(config, DecodeConfig())) == config


def test_a_pair_that_nothing_scales_is_read_by_its_target():
    assert default_preset(calibrated=True, target_reads=True) == "cpu"
    assert default_preset(calibrated=False, target_reads=True) == "read"
    assert default_preset(calibrated=False, target_reads=False) == "cpu"


def test_the_default_preset_looks_for_the_calibration_of_the_draft(tmp_path):
    assert fitting_preset(str(bundled.DRAFT), str(bundled.TARGET), None) == "cpu"
    assert fitting_preset(str(bundled.DRAFT), str(bundled.TARGET), "none") == "read"
    assert fitting_preset(str(tmp_path), "org/target", None) == "read"
    assert fitting_preset(str(tmp_path), "org/target", "pair.json") == "cpu"
    assert fitting_preset(str(tmp_path), "http://127.0.0.1:8000/v1", None) == "cpu"
    assert fitting_preset(str(tmp_path), None, None) == "cpu"
