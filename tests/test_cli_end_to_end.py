"""The command line in processes of its own: signals, pipes and locales, and the pair that ships."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specguard_core import bundled
from specguard_core.trace_io import load_trace, save_trace
from tests.any_traces import full_trace
from tests.bench import FIRST, PROBLEM, RIGHT, Bench, Run, one_sentence


@pytest.fixture
def bench() -> Bench:
    return Bench()


ROOT = Path(__file__).parent.parent
needs_pair = pytest.mark.bundled(bundled.DRAFT, bundled.TARGET)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "specguard_core", *map(str, arguments)]


def run_command(*arguments: str | Path, **environment: str) -> Run:
    done = subprocess.run(
        command(*arguments),
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def test_showing_a_trace_loads_no_model_library(tmp_path: Path) -> None:
    save_trace(full_trace(), tmp_path / "t.json")
    code = (
        "import sys; from specguard_core.cli import main; code = main(['show', sys.argv[1]]);"
        "sys.exit(code or ('torch' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "t.json"], check=False, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0


def test_a_closed_pipe_and_a_plain_locale_are_no_error(tmp_path: Path) -> None:
    save_trace(replace(full_trace(), problem="日本 😀"), tmp_path / "t.json")
    shown = run_command("show", tmp_path / "t.json", PYTHONIOENCODING="ascii")
    assert (shown.code, shown.err) == (0, "")
    with subprocess.Popen(
        command("show", tmp_path / "t.json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""


@needs_pair
def test_the_bundled_pair_decodes_from_the_command_line(tmp_path: Path) -> None:
    question = json.loads(bundled.PROBLEMS.read_text("utf-8").splitlines()[0])["question"]
    limits = ("--set", "max_steps=4", "max_step_tokens=40")
    run = run_command("decode", "--problem", question, "--out", tmp_path / "t.json", *limits)
    assert (run.code, run.err) == (0, "")
    trace = load_trace(tmp_path / "t.json")
    assert trace.status == "finished"
    assert trace.draft is not None
    assert trace.draft.name == "abacus-draft"


@pytest.mark.case(13, 17)
@needs_pair
@pytest.mark.parametrize(
    "knobs", [("draft_top_k=1",), ("draft_temperature=0.0001", "draft_top_p=0")]
)
def test_a_run_that_leaves_one_token_to_draw_from_saves_finite_numbers(
    knobs: tuple[str, ...], bench: Bench, tmp_path: Path
) -> None:
    from specguard_core import load_models

    bench.load = load_models  # type: ignore[method-assign]  # the true loader, in this process
    limits = ("--set", "max_steps=2", "max_step_tokens=10", "n_alternatives=50", *knobs)
    run = bench("decode", "--problem", "How many?", "--out", tmp_path / "t.json", *limits)
    assert run.code == 0
    text = (tmp_path / "t.json").read_text("utf-8")
    assert not {"NaN", "Infinity"} & set(re.findall(r"\w+", text))
    tokens = load_trace(tmp_path / "t.json").units[0].candidates[0].tokens
    assert [token.sampling_logprob for token in tokens] == [0.0] * len(tokens)


@needs_pair
def test_models_says_what_a_pair_is_and_whether_it_fits(bench: Bench, tmp_path: Path) -> None:
    run = bench("models", bundled.DRAFT, bundled.TARGET)
    assert run.code == 0
    assert "abacus-target (LlamaForCausalLM)" in run.out
    assert "the pair fits" in run.out
    data = json.loads(bench("models", bundled.DRAFT, "--json").out)
    assert data["fits"] is True
    assert data["models"][0]["info"]["n_parameters"] > 0
    other = _with_another_tokenizer(tmp_path)
    run = bench("models", bundled.DRAFT, other)
    assert run.code == 1
    assert one_sentence(run)
    assert "does not fit" in run.err


def _with_another_tokenizer(tmp_path: Path) -> Path:
    """A copy of the draft in which two tokens of the tokenizer changed places."""
    other = tmp_path / "other"
    other.mkdir()
    for file in bundled.DRAFT.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((other / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    return other


@needs_pair
def test_a_pair_that_cannot_be_is_told_in_one_sentence(bench: Bench, tmp_path: Path) -> None:
    from specguard_core import load_models

    bench.load = load_models  # type: ignore[method-assign]  # the true loader, in this process
    empty = tmp_path / "empty"
    empty.mkdir()
    for draft, said in (
        (empty, "expected a model folder"),
        (tmp_path / "none", "does not exist"),
        (_with_another_tokenizer(tmp_path), "to share a tokenizer"),
    ):
        run = bench("decode", "--problem", "How many?", "--draft", draft)
        assert run.code == 1
        assert one_sentence(run)
        assert said in run.err


SLOW = """
import signal, sys, time
# A shell has what runs in its background ignore Ctrl-C, and children with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from specguard_core import cli
from specguard_core.backends.scripted import ScriptedModel, scripted_info
from specguard_core.commands.shell import Shell
from tests.bench import DRAFT_SCRIPT, Bench

class Slow(ScriptedModel):
    def sample_steps(self, *given, **keywords):
        if self.n_calls == 2:
            time.sleep(60)
        return ScriptedModel.sample_steps(self, *given, **keywords)

bench = Bench(draft=Slow(DRAFT_SCRIPT, info=scripted_info("small")))
shell = cli._shell()
sys.exit(cli.main(sys.argv[1:], Shell(shell.console, shell.stdin, bench.load)))
"""


def test_ctrl_c_saves_what_was_decoded(tmp_path: Path) -> None:
    arguments = ("decode", "--problem", PROBLEM, "--out", str(tmp_path / "t.json"))
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        while not running.stdout.readline().startswith("  2  fallback"):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        err = running.stderr.read()
    assert running.returncode == 1
    assert err.startswith("error: stopped after 2 whole steps; what was decoded is in")
    assert err.count("\n") == 1
    trace = load_trace(tmp_path / "t.json")
    assert (trace.status, trace.text) == ("stopped", FIRST + RIGHT)
