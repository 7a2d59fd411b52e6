"""Votes of chains, worked by hand, and the laws of any vote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.errors import UsageError
from specguard_core.votes import Ballot, vote

answers = st.lists(st.sampled_from(["5", "5.0", "7", "$7$", "12", None]), min_size=1, max_size=9)
unit = st.one_of(st.none(), st.floats(0, 1))


def test_most_chains_win_whatever_the_rewards():
    result = vote(["5", "7", "7"], [0.9, 0.1, 0.2])
    assert result.ballots == (Ballot("7", (1, 2), pytest.approx(0.15)), Ballot("5", (0,), 0.9))
    assert result.chosen == 2


def test_answers_are_compared_as_values_and_kept_as_the_first_chain_wrote_them():
    result = vote(["7", "5", "5.0", "\\$5"], [0.9, 0.5, 0.6, 0.7])
    assert result.ballots[0].answer == "5"
    assert result.ballots[0].chains == (1, 2, 3)
    assert result.chosen == 3


def test_a_tie_goes_to_the_higher_mean_reward():
    result = vote(["5", "7", "5", "7"], [0.9, 0.6, 0.2, 0.6])
    assert [ballot.answer for ballot in result.ballots] == ["7", "5"]
    assert result.chosen == 1


def test_a_tie_of_rewards_goes_to_the_lower_index():
    result = vote(["5", "7", "7", "5"], [0.5, 0.5, 0.5, 0.5])
    assert (result.ballots[0].answer, result.chosen) == ("5", 0)


def test_chains_without_an_answer_win_only_alone():
    assert vote([None, None, "7"], [1.0, 1.0, 0.0]).ballots[0].answer == "7"
    nobody = vote([None, None], [0.2, 0.3])
    assert (nobody.ballots, nobody.chosen) == ((Ballot(None, (0, 1), 0.25),), 1)


def test_a_reward_that_was_not_measured_is_below_any_that_was():
    result = vote(["5", "7"], [None, 0.0])
    assert (result.ballots[0].answer, result.ballots[1].mean_reward) == ("7", None)


def test_no_chains_cannot_vote():
    with pytest.raises(UsageError, match="expected one chain or more"):
        vote([], [])
    with pytest.raises(UsageError, match="got 2 answers and 1 rewards"):
        vote(["5", "7"], [0.5])


@given(answers, st.data())
def test_every_chain_has_one_vote_and_no_ballot_beats_the_winner(given_answers, data):
    n = len(given_answers)
    rewards = data.draw(st.lists(unit, min_size=n, max_size=n))
    result = vote(given_answers, rewards)
    assert sorted(i for ballot in result.ballots for i in ballot.chains) == list(range(n))
    counts = [len(ballot.chains) for ballot in result.ballots if ballot.answer is not None]
    assert counts == sorted(counts, reverse=True)
    assert result.chosen in result.ballots[0].chains


@given(st.sampled_from(["5", "7", "12"]), st.integers(1, 9), st.integers(0, 8))
def test_a_majority_wins_in_any_order(answer, n, others):
    lone = [str(100 + i) for i in range(min(others, n - 1))]
    for mixed in ([answer] * n + lone, lone + [answer] * n):
        assert vote(mixed, [0.5] * len(mixed)).ballots[0].answer == answer
