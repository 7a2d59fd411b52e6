"""The soak without its browser: what it calls lost, and what it calls flat."""

from dataclasses import replace

import pytest
from sample_traces import coin_trace

from benchmarks import soak
from specguard_core.files import format_json
from specguard_core.sessions import Branch, Session
from specguard_core.trace_io import to_json


def saved(**lengths: int) -> str:
    """A session file whose branches have so many steps of one run."""
    trace = coin_trace()
    branches = [
        Branch(name, replace(trace, units=trace.units[:count], status="stopped", finish=None))
        for name, count in lengths.items()
    ]
    rest = [replace(branch, parent=branches[0].name, forked_at=0) for branch in branches[1:]]
    return format_json(to_json(Session((branches[0], *rest), branches[0].name)))


def test_a_run_that_grew_and_branched_has_lost_nothing():
    before, after = soak.branches_of(saved(main=1)), soak.branches_of(saved(main=2, other=1))
    assert soak.missing(before, after) == []
    assert soak.missing(after, after) == []


def test_a_branch_or_a_step_that_is_gone_is_lost():
    before = soak.branches_of(saved(main=2, other=1))
    assert soak.missing(before, soak.branches_of(saved(main=2))) == ["branch other"]
    assert soak.missing(before, soak.branches_of(saved(main=1, other=1))) == ["steps of main"]


def test_growth_is_told_from_the_thirds_after_the_warm_up():
    samples = [(float(second), (100 if second < 20 else 200) * 10**6) for second in range(100)]
    assert soak.growth(samples, 100) == (200, 200)
    samples[-40:] = [(at, 300 * 10**6) for at, _ in samples[-40:]]
    assert soak.growth(samples, 100) == (200, 300)
    assert soak.growth(samples[:1], 0) == (100, 100)


def test_without_a_browser_the_soak_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(soak, "browser_path", lambda: None)
    assert soak.main([]) == 2
    assert "install one" in capsys.readouterr().out


def test_a_file_that_is_no_session_is_refused():
    with pytest.raises(TypeError, match="expected a session file"):
        soak.branches_of(format_json(to_json(coin_trace())))
