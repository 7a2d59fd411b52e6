"""A target behind a server writes and grades as one that runs here; its faults lose nothing."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from specguard_core import DecodeConfig, bundled, decode, load_models, start
from specguard_core.backends import remote
from specguard_core.backends.hf import HfModel
from specguard_core.backends.remote import RemoteModel, connect
from specguard_core.backends.scripted import (
    EOS,
    ScriptedModel,
    ScriptedVocabulary,
    scripted_info,
)
from specguard_core.decoder.states import AwaitingCommit, AwaitingDraft, Finished
from specguard_core.decoder.step import advance
from specguard_core.errors import Cancelled, ModelError, NotMeasured, UsageError
from specguard_core.lm import ChoiceRequest, Models, SampleRequest
from specguard_core.presets import preset
from specguard_core.problem_files import read_problems
from specguard_core.trace_json import codec
from specguard_core.types import Trace
from tests.completions import MODEL, Exchange, completions

VOCABULARY = ScriptedVocabulary()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.01)


def target_of(address: str, **options: object) -> RemoteModel:
    return connect(f"{address}?model={MODEL}", VOCABULARY, context_length=500, **options)


def request(prefix: tuple[int, ...] = (256, 65), max_tokens: int = 40) -> SampleRequest:
    return SampleRequest(prefix, (7,), 0.0, 1.0, 0, "\n\n", max_tokens, 2, 0, False, False)


def text_of(draw: object) -> str:
    return b"".join(VOCABULARY.piece(i) for i in draw.token_ids).decode()


def says(*pieces: str, reason: str | None = "stop"):
    return lambda body, exchange: exchange.stream(list(pieces), reason)


def test_a_step_ends_at_its_delimiter_wherever_the_server_cuts_its_pieces():
    with completions(says("\n\n", "2 + 2", " = 4.\n", "\nAnd more", " and more")) as server:
        [batch] = target_of(server.address).sample_steps([request()])
    assert text_of(batch.draws[0]) == "\n\n2 + 2 = 4.\n\n"
    assert batch.draws[0].stop == "delimiter"
    assert batch.passes == batch.positions == len(batch.draws[0].token_ids)


def test_an_answer_that_ends_by_itself_ends_with_eos_and_one_that_is_cut_does_not():
    with completions(says("So 4.")) as server:
        [batch] = target_of(server.address).sample_steps([request()])
        assert batch.draws[0].stop == "eos"
        assert batch.draws[0].token_ids[-1] == EOS
    with completions(says("So 4", reason="length")) as server:
        [batch] = target_of(server.address).sample_steps([request()])
        assert (batch.draws[0].stop, text_of(batch.draws[0])) == ("limit", "So 4")


def test_a_server_whose_tokenizer_counts_otherwise_never_overruns_the_budget():
    with completions(says("abcdefgh")) as server:
        [batch] = target_of(server.address).sample_steps([request(max_tokens=3)])
    assert (batch.draws[0].stop, text_of(batch.draws[0])) == ("limit", "abc")


def test_nothing_is_made_up_of_what_a_server_does_not_say():
    with completions(says("So 4.\n\n")) as server:
        model = target_of(server.address)
        [batch] = model.sample_steps([request()])
        draw = batch.draws[0]
        assert draw.logprobs is draw.entropies is draw.attention is draw.hidden is None
        with pytest.raises(NotMeasured, match="only writes"):
            model.read_steps([])


def test_the_prompt_goes_out_as_ids_and_as_text_where_a_server_takes_none():
    def picky(body: dict, exchange: Exchange) -> None:
        if isinstance(body["prompt"], list):
            exchange.status(400, "prompt must be a string")
        else:
            exchange.stream(["ok.\n\n"])

    with completions(says("ok.\n\n")) as server:
        target_of(server.address).sample_steps([request()])
        assert server.bodies[0]["prompt"] == [256, 65]
    with completions(picky) as server:
        model = target_of(server.address, bos_token_id=256)
        model.sample_steps([request(), request()])
        model.sample_steps([request()])
        # The server's own tokenizer adds the BOS: a prompt with two would be another prompt.
        assert [b["prompt"] for b in server.bodies if b["prompt"] != [256, 65]] == ["A"] * 3


def test_a_server_that_is_busy_is_asked_again_and_one_that_stays_so_is_a_clear_error():
    busy = iter([503, 429])

    def recovers(body: dict, exchange: Exchange) -> None:
        code = next(busy, None)
        exchange.stream(["ok.\n\n"]) if code is None else exchange.status(code)

    with completions(recovers) as server:
        [batch] = target_of(server.address).sample_steps([request()])
        assert text_of(batch.draws[0]) == "ok.\n\n"
        assert len(server.bodies) == 3
    with completions(lambda body, exchange: exchange.status(503)) as server:
        with pytest.raises(ModelError, match=r"failed 4 times \(status 503\)"):
            target_of(server.address).sample_steps([request()])
        assert len(server.bodies) == remote.ATTEMPTS


def test_a_request_that_can_never_work_is_not_repeated():
    with completions(lambda body, exchange: exchange.status(401, "no such key")) as server:
        with pytest.raises(ModelError, match=r"status 401 \(no such key\)"):
            target_of(server.address).sample_steps([request()])
        assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "script",
    [
        says("half a st", reason=None),
        lambda body, exchange: exchange.status(200, "data: not JSON\n\n"),
        lambda body, exchange: exchange.status(200, 'data: {"error": "out of memory"}\n\n'),
        lambda body, exchange: exchange.status(200, "data: [1]\n\n"),
    ],
)
def test_a_broken_stream_is_told_in_one_sentence(script):
    with completions(script) as server, pytest.raises(ModelError, match="failed 4 times") as told:
        target_of(server.address).sample_steps([request()])
    assert "\n" not in str(told.value)


def test_stop_closes_the_connection_while_the_server_is_silent():
    begun, over = threading.Event(), threading.Event()

    def silent(body: dict, exchange: Exchange) -> None:
        exchange.stream(["One"], reason=None)
        begun.set()
        while not over.wait(0.02) and not exchange.served.left.is_set():
            exchange.say("")

    with completions(silent) as server:
        with pytest.raises(Cancelled):
            target_of(server.address).sample_steps([request()], should_stop=begun.is_set)
        assert server.left.wait(5)
        over.set()


def test_a_server_that_dies_in_a_step_leaves_the_state_as_it_was_and_can_be_gone_on_from():
    draft = ScriptedModel()
    config = replace(DecodeConfig(), strategy="target_only", max_steps=1)
    with completions(says("half", reason=None)) as server:
        port = int(server.address.split(":")[2].split("/")[0])
        models = Models(VOCABULARY, draft=draft, target=target_of(server.address))
        state = start("1 + 1?", models, config)
        while not isinstance(state, AwaitingCommit):
            state, _ = advance(state, models)
        with pytest.raises(ModelError):
            advance(state, models)
    with pytest.raises(ModelError, match="failed 4 times"):
        advance(state, models)
    with completions(says("1 + 1 = 2.\n\n"), port=port):
        after, event = advance(state, models)
    assert isinstance(after, AwaitingDraft | Finished)
    assert event.step.output.origin == "retokenised"
    assert event.step.cost.roles["target_written"].tokens == len(event.step.token_ids)
    trace = codec(Trace)
    assert trace.decode(trace.encode(after.trace)) == after.trace


@pytest.mark.parametrize("gives_probabilities", [True, False])
def test_a_grade_is_read_from_probabilities_or_from_the_one_answer(gives_probabilities: bool):
    def grades(body: dict, exchange: Exchange) -> None:
        chances = {"top_logprobs": [{" 8": -0.2, " 7": -1.7}]} if gives_probabilities else None
        exchange.json({"choices": [{"text": " 8", "logprobs": chances}]})

    digits = tuple(VOCABULARY.encode(digit)[0] for digit in "0123456789")
    with completions(grades) as server:
        model = target_of(server.address)
        [reading] = model.read_choices([ChoiceRequest((256,), (65,), digits)])
    assert reading.logprobs.argmax() == 8
    assert reading.logprobs[7] == pytest.approx(-1.7 if gives_probabilities else -100)
    assert reading.answer_only is not gives_probabilities


def test_the_key_is_sent_and_never_recorded():
    with completions(says("ok.\n\n")) as server:
        model = target_of(server.address, key="hidden")
        model.sample_steps([request()])
        assert server.keys == ["Bearer hidden", "Bearer hidden"]
        login = target_of(server.address.replace("//", "//me:secret@"))
    assert "hidden" not in repr(model.info)
    assert "secret" not in repr(login.info)


@pytest.mark.parametrize(
    ("query", "models", "said"),
    [
        ("", ({"id": "a"}, {"id": "b"}), r"one of those at .* \(a, b\), got none named"),
        ("?model=c", ({"id": "a"},), r"\(a\), got 'c'"),
        ("", (), r"\(none\), got none named"),
    ],
)
def test_a_model_the_server_does_not_offer_is_answered_with_the_menu(query, models, said):
    with completions(says(), models) as server, pytest.raises(ModelError, match=said):
        connect(server.address + query, VOCABULARY, context_length=500)


def test_the_only_model_need_not_be_named_and_its_context_is_the_servers():
    with completions(says(), ({"id": "org/only", "max_model_len": 77},)) as server:
        info = connect(server.address + "/", VOCABULARY, context_length=500).info
    assert (info.name, info.context_length) == ("only", 77)
    assert info.source.endswith("/v1?model=only")


def test_no_server_no_address_and_no_draft_are_each_one_sentence():
    with pytest.raises(ModelError, match="none answers"):
        connect(f"http://127.0.0.1:{free_port()}/v1", VOCABULARY, context_length=500)
    with pytest.raises(UsageError, match="expected an address such as"):
        connect("http:///v1", VOCABULARY, context_length=500)
    with pytest.raises(UsageError, match="its tokenizer is needed"):
        load_models(None, "http://127.0.0.1:1/v1")
    with pytest.raises(UsageError, match="signals come from inside"):
        load_models("http://127.0.0.1:1/v1", None)


@pytest.fixture(scope="module")
def served_target() -> Iterator[str]:
    """The bundled target behind `transformers serve`, in the precision it runs in here."""
    port = free_port()
    command = [Path(sys.executable).parent / "transformers", "serve", bundled.TARGET]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(
        [str(part) for part in command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            assert server.poll() is None, "transformers serve ended by itself"
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=1)
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize("strategy", ["target_only", "specguard"])
def test_a_served_target_writes_what_it_writes_here(served_target: str, strategy: str):
    problem = read_problems(bundled.PROBLEMS, limit=3)[2]
    config = replace(preset("cpu"), strategy=strategy, threshold=0.9)
    texts = []
    for target in (bundled.TARGET, served_target):
        models = load_models(bundled.DRAFT, target, dtype="float32")
        assert isinstance(models.target, RemoteModel if target is served_target else HfModel)
        *_, last = decode(start(problem.question, models, config), models)
        texts.append(last.trace.text)
        assert any(step.outcome.source == "target" for step in last.trace.steps)
    assert texts[0] == texts[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SpacingVocabulary(ScriptedVocabulary):
    """Puts a space before whatever it is given, as tokenizers with a mark for spaces do."""

    def encode(self, text: str) -> tuple[int, ...]:
        return super().encode(f" {text}")


@pytest.mark.parametrize(("goes_on", "text"), [(True, "23 pens."), (False, " 23 pens.")])
def test_a_text_that_goes_on_from_another_gets_no_space_before_it(goes_on, text):
    vocabulary = SpacingVocabulary()
    model = RemoteModel(cast(Any, None), vocabulary, scripted_info(), None)
    ids = model._encoded("23 pens.", goes_on=goes_on)
    assert b"".join(map(vocabulary.piece, ids)).decode() == text
