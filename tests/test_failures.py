"""Whatever fails in a step: one sentence, the steps so far stand, and the next press goes on."""

import pytest

from specguard_core.errors import ModelError, out_of_memory
from specguard_core.lm import Models
from tests.test_session import CONFIG, SCRIPT, ScriptedModel, models, pair_of, run_by_hand
from viz_app.driving import drive
from viz_app.session import Problem, Session
from viz_app.work import Loaded, Pair, Room

FRESH = Session(Problem("How many?", "47"), CONFIG)


class Failing(ScriptedModel):
    """Fails once at its second call, as told; counts how often it was made to forget."""

    error: Exception = MemoryError()
    forgotten = 0

    def sample_steps(self, requests, **how):
        if self.n_calls == 1:
            self.n_calls += 1
            raise self.error
        return super().sample_steps(requests, **how)

    def forget(self):
        self.forgotten += 1


def failing(error: Exception) -> tuple[Pair, Failing]:
    draft = Failing(SCRIPT, info=models().draft.info)
    draft.error = error
    whole = models()
    return pair_of(Models(whole.vocabulary, draft, whole.target)), draft


@pytest.mark.parametrize(
    ("error", "sentence", "forgotten"),
    [
        (MemoryError(), "ran out of memory", 1),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "ran out of memory", 1),
        (ModelError("expected a GPU, got none: plug one in"), "plug one in", 0),
        (KeyError("weights"), "a transition failed (KeyError", 0),
    ],
)
def test_a_failed_step_leaves_the_others_and_the_next_press_goes_on(error, sentence, forgotten):
    pair, draft = failing(error)
    *_, last = drive(FRESH, "run", pair, room := Room())
    assert sentence in last.session.notice
    assert (len(last.session.trace.units), last.progress, draft.forgotten) == (1, None, forgotten)
    assert not room.busy
    *_, whole = drive(last.session, "run", pair, room)
    assert whole.session.notice is None
    assert whole.session.trace == run_by_hand(models()).trace


@pytest.mark.parametrize("error", [ModelError("no such folder"), FileNotFoundError("gone")])
def test_models_that_are_gone_are_told_and_asked_for_again(error):
    answers = [error, None]

    def load():
        if (found := answers.pop(0)) is not None:
            raise found
        return Loaded(models(), None)

    pair = Pair(load, ("draft", "target"))
    *_, last = drive(FRESH, "step", pair, Room())
    assert str(error) in last.session.notice
    assert (last.session.lines, pair.state) == ((), "models could not be loaded")
    *_, last = drive(last.session, "step", pair, Room())
    assert len(last.session.trace.units) == 1


def test_the_end_is_told_before_the_room_is_put_in_order_and_another_run_may_begin():
    room = Room()
    first = drive(FRESH, "step", pair_of(models()), room)
    last = next(frame for frame in first if frame.progress is None)
    assert room.job is not None
    assert not room.busy
    second = drive(last.session, "step", pair_of(models()), room)
    frames = [next(second)]
    first.close()
    assert room.job is not None
    frames += second
    assert len(frames[-1].session.trace.units) == 2
    assert room.job is None


def test_an_ordinary_error_is_not_one_of_memory():
    assert not out_of_memory(ValueError("memory of a goldfish"))
