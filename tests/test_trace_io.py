"""Files hold exactly what was saved, refuse whatever is not whole, and survive a failing disk."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguard_core import files, trace_io
from specguard_core.config import DecodeConfig
from specguard_core.errors import SaveError, TraceFileError
from specguard_core.evidence import Evidence
from specguard_core.sessions import Breakpoint, Session
from specguard_core.trace_json import codec
from specguard_core.types import (
    Bounds,
    Calibration,
    CalibrationTable,
    Candidate,
    RoleCost,
    TokenSignal,
    Trace,
)
from tests.any_traces import CALIBRATION, full_session, full_trace, traces


@settings(max_examples=50)
@given(traces())
def test_a_trace_comes_back_from_a_file_of_short_lines_durations_included(trace: Trace) -> None:
    def durations(some: Trace) -> list[dict[Any, float]]:
        return [{r: c.milliseconds for r, c in s.cost.roles.items()} for s in some.units]

    text = files.format_json(trace_io.to_json(trace))
    assert json.loads(text) == trace_io.to_json(trace)
    assert len(text.splitlines()) > 3
    back = trace_io.from_json(files.parse_json(text.encode()))
    assert isinstance(back, Trace)
    assert back == trace
    assert durations(back) == durations(trace)


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    trace_io.save_trace(full_trace(), tmp_path / "t.json")
    assert trace_io.load_trace(tmp_path / "t.json") == full_trace()
    trace_io.save_session(full_session(), tmp_path / "s.json")
    assert trace_io.load_session(tmp_path / "s.json") == full_session()
    trace_io.save_calibration(CALIBRATION, tmp_path / "c.json")
    assert trace_io.load_calibration(tmp_path / "c.json") == CALIBRATION


def test_a_bare_trace_loads_as_a_session_and_a_session_as_its_current_trace(tmp_path: Path) -> None:
    trace_io.save_trace(full_trace(), tmp_path / "t.json")
    session = trace_io.load_session(tmp_path / "t.json")
    assert [branch.trace for branch in session.branches] == [full_trace()]
    stopped = replace(full_trace(), status="stopped", finish=None)
    branches = (full_session().branches[0], replace(full_session().branches[1], trace=stopped))
    trace_io.save_session(replace(full_session(), branches=branches), tmp_path / "s.json")
    assert trace_io.load_trace(tmp_path / "s.json") == stopped


def test_equal_traces_make_equal_files_whatever_the_order_of_their_mappings() -> None:
    trace = full_trace()
    turned = replace(trace, pieces=dict(reversed(list(trace.pieces.items()))))
    assert files.format_json(trace_io.to_json(turned)) == files.format_json(trace_io.to_json(trace))


@pytest.mark.case(13)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_no_number_that_is_not_finite_reaches_a_file(number: float, tmp_path: Path) -> None:
    token = TokenSignal(3, logprob=number)
    step = replace(full_trace().units[0], written=Candidate((token,), "eos"))
    with pytest.raises(ValueError, match="finite"):
        trace_io.save_trace(replace(full_trace(), units=(step,)), tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_saved_as_numbers() -> None:
    data = codec(RoleCost).encode(RoleCost(np.int64(3), np.float32(0.5)))  # type: ignore[arg-type]  # numpy's scalars are what is tested
    assert json.dumps(data) == '{"tokens": 3, "milliseconds": 0.5}'


def test_a_value_of_two_kinds_keeps_its_kind() -> None:
    both = codec(tuple[Breakpoint, ...])
    points = (Breakpoint("a", 1.0), Breakpoint("a", "1.0"), Breakpoint("a", None))
    assert both.decode(json.loads(json.dumps(both.encode(points)))) == points


def _changed(path: str, value: Any) -> dict[str, Any]:
    """The saved full trace with one place changed; the value ... removes it."""
    data: dict[str, Any] = json.loads(json.dumps(trace_io.to_json(full_trace())))
    place: Any = data
    *outer, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in outer:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema_version", 2, "newer program"),
        ("schema_version", 0, "schema_version 1"),
        ("schema_version", True, "schema_version 1"),
        ("schema_version", "1", "schema_version 1"),
        ("schema_version", ..., "elsewhere"),
        ("kind", "trance", "elsewhere"),
        ("kind", {}, "elsewhere"),
        ("extra", 1, "unknown key 'extra'"),
        ("units/0/extra", 1, "unknown key 'extra' at units.0"),
        ("problem", ..., "no 'problem'"),
        ("problem", 3, "a text at problem"),
        ("units", {}, "a list at units"),
        ("units/0/index", 1, "unit 0 at its place"),
        ("units/0/index", 0.0, "a whole number at units.0.index"),
        ("units/0/index", True, "a whole number at units.0.index"),
        ("units/0/candidates/0/stop", "tired", "one of delimiter"),
        ("units/0/candidates/0/tokens", [], "at least one token"),
        ("units/0/candidates/0/tokens/0/token_id", 99, "token id 99 without its bytes"),
        ("units/0/candidates/0/tokens/0/alternatives/1/token_id", 98, "id 98 without its bytes"),
        ("units/0/candidates/0/tokens/0/logprob", "-1", "a number at units.0.candidates.0.tokens"),
        ("units/0/candidates/0/tokens/0/logprob", 10**400, "too large"),
        ("units/0/candidates/0/tokens/0/attribution", [0.5], "1 segments instead of 2"),
        ("units/0/candidates/0/tokens/0/attribution/1", "x", "a number at units.0.candidates.0"),
        ("units/0/candidates/0/tokens/0/attribution/1", None, "tokens.0.attribution.1"),
        ("units/0/candidates/0/heatmap/cells", "AAA", "base64"),
        ("units/0/candidates/0/heatmap/cells", "AAAA/w==", "cells"),
        ("units/0/candidates/0/heatmap", {"n_context": 0, "scales": [1, 1], "cells": ""}, "2 rows"),
        ("units/0/selection/chosen", 2, "chosen candidate"),
        ("units/0/selection/clusters", [0], "another size"),
        ("units/0/selection/similarity/lexical", [[1.0, 0.5]], "another size"),
        ("units/0/selection/similarity", {"smell": []}, "one of lexical"),
        ("units/0/verdict/readings/confidence/weakest_token", 1, "outside its step"),
        ("units/0/verdict/readings/beauty", {}, "one of confidence"),
        ("units/0/verdict/accepted", 1, "true or false"),
        ("units/0/outcome/forced", False, "forced by definition"),
        ("units/0/written", None, "a written step exactly"),
        ("units/0/written", ..., "no 'written' at units.0"),
        ("prompt_segments/0/token_ids", [77], "token id 77 without its bytes"),
        ("pieces", {"one": "QQ=="}, "a whole number"),
        ("pieces", {"\u0663": "QQ=="}, "a whole number"),
        ("pieces", {"1": 3}, "base64"),
        ("config/threshold", 2, "threshold from 0 to 1.01"),
        ("config/threshold", 10**400, "config"),
        ("config/colour", "red", "'colour'"),
        ("config/weights", [], "weights as an object"),
        ("config/strategy", [], "strategy"),
        ("status", "failed", "failure exactly"),
        ("draft", 5, "5 instead of an object at draft"),
    ],
)
def test_a_changed_file_is_refused_in_one_sentence_that_names_the_place(
    path: str, value: Any, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(_changed(path, value)))
    with pytest.raises(TraceFileError) as caught:
        trace_io.load_session(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '{"version": 1, "cells": []}',
        '{"kind": "trace", "schema_version": NaN}',
        '{"kind": "trace", "schema_version": 1e999}',
        '{"kind": "trace", "kind": "trace", "schema_version": 1}',
        "[" * 100_000,
        '{"kind": ' + "9" * 10_000 + "}",
        "\xff\xfe",
        "PK\x03\x04",
    ],
)
def test_a_foreign_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_bytes(text.encode("latin-1"))
    for load in (trace_io.load_trace, trace_io.load_session, trace_io.load_calibration):
        with pytest.raises(TraceFileError) as caught:
            load(file)
        assert str(file) in str(caught.value)


@given(st.integers(1, 400), st.booleans())
def test_a_file_that_was_cut_short_is_refused(n_lost: int, from_the_end: bool) -> None:
    data = files.format_json(trace_io.to_json(full_trace())).strip().encode()
    cut = data[:-n_lost] if from_the_end else data[:n_lost]
    with pytest.raises(ValueError, match=r"."):
        files.parse_json(cut)


def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    trace_io.save_trace(full_trace(), tmp_path / "t.json")
    with pytest.raises(TraceFileError, match=r"expected a calibration in .*, got a trace"):
        trace_io.load_calibration(tmp_path / "t.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="no such file"):
        trace_io.load_trace(tmp_path / "none.json")
    with pytest.raises(TraceFileError, match="a folder"):
        trace_io.load_trace(tmp_path)
    with pytest.raises(TraceFileError, match=r"could not read|no such file"):
        trace_io.load_trace("nul\0byte")


def test_a_huge_file_is_refused_by_its_size_and_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with file.open("wb") as opened:
        opened.truncate(files.MAX_FILE_BYTES + 1)  # sparse: no bytes are written
    with pytest.raises(TraceFileError, match=r"at most 100 MiB, got 100\.0 MiB"):
        trace_io.load_trace(file)


def test_a_list_of_too_many_entries_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1,000,000"):
        codec(tuple[int, ...]).decode([0] * 1_000_001)


def _fails(code: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("place", ["fsync", "rename"])
def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_behind(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.json"
    trace_io.save_trace(full_trace(), file)
    before = file.read_bytes()
    if place == "fsync":
        monkeypatch.setattr(files.os, "fsync", _fails(errno.ENOSPC))
    else:
        monkeypatch.setattr(Path, "replace", _fails(errno.ENOSPC))
    with pytest.raises(SaveError, match=r"no space left on device; the old file is as it was"):
        trace_io.save_trace(replace(full_trace(), problem="other"), file)
    assert file.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.json"]


def test_a_save_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trace_io.save_trace(full_trace(), tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_and_a_missing_folder_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="expected a file"):
        trace_io.load_trace("/dev/full")
    with pytest.raises(SaveError, match="no such file or directory; nothing was written"):
        trace_io.save_trace(full_trace(), tmp_path / "none" / "t.json")
    with pytest.raises(SaveError, match="folder"):
        trace_io.save_trace(full_trace(), tmp_path)


def test_saving_over_a_file_keeps_its_permissions_and_follows_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "t.json", tmp_path / "link.json"
    trace_io.save_trace(full_trace(), file)
    assert file.stat().st_mode & 0o777 == 0o666 & ~_umask()
    file.chmod(0o640)
    link.symlink_to(file)
    trace_io.save_trace(full_trace(), link)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_calibration_keeps_the_kinds_of_its_settings(tmp_path: Path) -> None:
    settings = {"whole": 3, "share": 0.5, "yes": True, "name": "all", "none": None, "many": (1, 2)}
    calibration = Calibration(
        "a + b", 1, 2, (CalibrationTable(settings, {"agreement": Bounds(0.0, 1.0)}),)
    )
    trace_io.save_calibration(calibration, tmp_path / "c.json")
    back = trace_io.load_calibration(tmp_path / "c.json")
    assert back == calibration
    kept = back.tables[0].settings
    assert [type(v) for v in kept.values()] == [type(settings[name]) for name in kept]


def test_evidence_comes_back_row_by_row_in_its_order(tmp_path: Path) -> None:
    rows = {
        "b" * 32: np.arange(12, dtype=np.float32).reshape(1, 3, 4),
        "a" * 32: np.ones((2, 1, 5)),
    }
    evidence = Evidence.from_rows({key: np.float32(value) for key, value in rows.items()})
    file = trace_io.evidence_path(tmp_path / "run.json")
    assert file.name == "run.evidence.npz"
    trace_io.save_evidence(evidence, file)
    back = dict(trace_io.load_evidence(file).items())
    assert list(back) == list(rows)
    for key, value in rows.items():
        np.testing.assert_array_equal(back[key], value)


def test_a_foreign_evidence_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.npz"
    for data in (b"", b"PK\x03\x04 not a zip", b"\x93NUMPY"):
        file.write_bytes(data)
        with pytest.raises(TraceFileError, match="evidence"):
            trace_io.load_evidence(file)
    objects: dict[str, Any] = {"a": np.array([{}], dtype=object)}
    np.savez(file, **objects)
    with pytest.raises(TraceFileError, match="pickle"):
        trace_io.load_evidence(file)
    for wrong in (np.zeros(3, np.float32), np.zeros((1, 1, 1)), np.full((1, 1, 1), np.nan, "f")):
        np.savez(file, a=wrong)
        with pytest.raises(TraceFileError, match="finite float32"):
            trace_io.load_evidence(file)
    np.savez_compressed(file, a=np.zeros((1, 1000, 1000), np.float32))
    with pytest.raises(TraceFileError, match="at most 1 MiB"):
        trace_io.load_evidence(file, limit_bytes=2**20)


def test_every_knob_is_in_the_file() -> None:
    assert set(trace_io.to_json(full_trace())["config"]) == set(DecodeConfig.__dataclass_fields__)


def test_a_session_that_names_a_missing_branch_is_refused() -> None:
    data = trace_io.to_json(full_session())
    with pytest.raises(TraceFileError, match="expected distinct branches"):
        trace_io.from_json(data | {"current": "gone"})
    assert isinstance(trace_io.from_json(data), Session)
