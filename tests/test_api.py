"""The three endpoints: typed, stateless, bounded, and each refusal one sentence."""

import asyncio
import threading
import time
from http.client import HTTPConnection, HTTPResponse

import pytest
from sample_traces import coin_trace
from serving import RECITING, served
from test_session import SCRIPT, models

from specguard_core.config import DecodeConfig
from specguard_core.errors import PairError, SpecGuardError, UsageError
from specguard_core.trace_io import from_json, to_json
from viz_app.api import Endpoints, explained, trace_of
from viz_app.guard import BodyLimit
from viz_app.limits import LOCKED, Limits
from viz_app.turns import Turns
from viz_app.work import Loaded, Pair

SETTINGS = ["n_candidates=2", "threshold=0.5", "weights=confidence:1"]
TRACE = to_json(coin_trace())


def pair() -> Pair:
    return Pair(lambda: Loaded(models(), None), ("draft", "target"))


def endpoints(limits: Limits | None = None, turns: Turns | None = None) -> Endpoints:
    return Endpoints(pair(), turns or Turns(), limits or Limits())


def test_a_run_comes_back_whole_and_can_be_explained_and_judged_again():
    offered = endpoints()
    answer = offered.run_trace("How many?", settings=SETTINGS, gold="47")
    assert answer["summary"]["answer"] == "47"
    assert len(from_json(answer["trace"]).steps) == len(SCRIPT)
    assert offered.explain_step(answer["trace"], 1)["outcome"] == "accepted"
    assert offered.regate(answer["trace"], ["threshold=1.01"])["first_flip"] == 0


def test_the_same_request_gives_the_same_answer():
    first, second = (endpoints().run_trace("How many?", settings=SETTINGS) for _ in range(2))
    assert from_json(first["trace"]) == from_json(second["trace"])


def test_an_explanation_says_the_sum_of_the_page():
    said = explained(coin_trace(), 3)
    assert said["explanation"].startswith("Refused: 0.409 is 0.291 short of 0.700,")
    assert [row["part"] for row in said["readings"]] == ["0.066", "0.343"]
    assert said["decided_by"][0].startswith("·9")
    exec(said["assertion"], {})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda e: e.run_trace("  "), "write a question"),
        (lambda e: e.run_trace("x" * 20_001), "at most 20,000"),
        (lambda e: e.run_trace("How?", preset="none"), "a preset out of"),
        (lambda e: e.run_trace("How?", settings=["speed=3"]), "expected a knob"),
        (lambda e: e.run_trace("How?", settings=[3]), "a list of texts"),
        (lambda e: e.run_trace("How?", settings="threshold=1"), "a list of texts"),
        (lambda e: e.run_trace("How?", seed=-1), "seed"),
        (lambda e: e.regate({}, []), "a kind out of"),
        (lambda e: e.regate({**TRACE, "schema_version": 99}, []), "a newer program"),
        (lambda e: e.regate({**TRACE, "units": 3}, []), "expected a whole trace"),
        (lambda e: e.regate(TRACE, ["n_candidates=3"]), "decode again"),
        (lambda e: e.explain_step(TRACE, 0), "a step from 1 to 4"),
        (lambda e: e.explain_step(TRACE, 5), "a step from 1 to 4"),
        (lambda e: e.explain_step([], 1), "a kind out of"),
    ],
)
def test_a_wrong_request_is_one_sentence(call, sentence):
    with pytest.raises(SpecGuardError, match=sentence) as refused:
        call(endpoints())
    assert "\n" not in str(refused.value)


def test_a_session_stands_for_its_current_branch():
    from specguard_core.sessions import Branch, Session

    session = Session((Branch("main", coin_trace()),), "main")
    assert trace_of(to_json(session)) == coin_trace()


def test_limits_hold_for_programs_too():
    bounded = endpoints(Limits(max_tokens=3)).run_trace("How many?", settings=SETTINGS)
    assert bounded["trace"]["config"]["max_new_tokens"] == 3
    with pytest.raises(UsageError, match="read-only"):
        endpoints(Limits(read_only=True)).run_trace("How many?")
    assert LOCKED.startswith("This page is read-only")


def test_a_run_waits_for_its_turn_with_the_models():
    turns, done = Turns(), threading.Event()

    def ask() -> None:
        endpoints(turns=turns).run_trace("How many?", settings=SETTINGS)
        done.set()

    with turns.turn():
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.2)
        assert not done.is_set()
    asking.join(60)
    assert done.is_set()
    full = Turns(most_waiting=0)
    with full.turn(), pytest.raises(UsageError, match="try again"):
        endpoints(turns=full).run_trace("How many?", settings=SETTINGS)


def declare(port: int, n_bytes: int) -> HTTPResponse:
    """The answer to a request that says it has so many bytes, and sends none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("POST", "/gradio_api/call/regate")
    connection.putheader("content-length", str(n_bytes))
    connection.endheaders()
    return connection.getresponse()


def test_a_body_without_a_length_is_cut_at_the_bound():
    read = []

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            read.append(len(message["body"]))

    async def piece():
        return {"type": "http.request", "body": b"x" * 40, "more_body": True}

    asyncio.run(BodyLimit(app, 100)({"type": "http", "headers": []}, piece, None))
    assert sum(read) == 80


def test_a_real_client_finds_exactly_three_endpoints_and_gets_sentences():
    import httpx
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    with served(RECITING, "--public", "--max-tokens", "200") as server:
        info = httpx.get(f"{server.address}/gradio_api/info").json()
        assert set(info["named_endpoints"]) == {"/run_trace", "/regate", "/explain_step"}
        assert info["unnamed_endpoints"] == {}
        assert all(point["description"] for point in info["named_endpoints"].values())
        client = Client(server.address, verbose=False)
        answer = client.predict("How many?", settings=SETTINGS, api_name="/run_trace")
        assert answer["trace"]["config"]["max_new_tokens"] == 200
        said = client.predict(answer["trace"], 1, api_name="/explain_step")
        assert said["outcome"] == "accepted"
        n_steps = len(answer["summary"]["steps"])
        with pytest.raises(AppError, match=f"a step from 1 to {n_steps}"):
            client.predict(answer["trace"], 9, api_name="/explain_step")
        with pytest.raises(AppError, match="expected a knob"):
            client.predict(answer["trace"], ["speed=3"], api_name="/regate")
        client.close()
        refused = declare(server.port, 2**30)
        assert refused.status == 413
        assert b"at most 128 MiB" in refused.read()


def test_what_a_model_says_of_itself_stays_one_sentence_in_public():
    def fails() -> Loaded:
        raise PairError("expected a model at /srv/models/draft, got none: check it")

    broken = Endpoints(Pair(fails, ("draft", "target")), Turns(), Limits(public=True))
    with pytest.raises(PairError) as failed:
        broken.run_trace("How many?", settings=SETTINGS)
    assert "/srv" not in Limits(public=True).told(failed.value)


def test_bounds_of_a_config_are_those_of_the_page():
    assert Limits(max_tokens=5).bounded(DecodeConfig()).max_new_tokens == 5
