"""What a Hugging Face Space needs before it starts: its settings, its requirements, its flags."""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import app
from viz_app.limits import PUBLIC_TOKENS

ROOT = Path(__file__).parent.parent
OWN = {"app", "viz_app", "specguard_core"}
ON_A_SPACE = {
    "SYSTEM": "spaces",
    "SPACE_ID": "owner/specguard",
    "SPACE_HOST": "owner-specguard.hf.space",
    "GRADIO_SERVER_NAME": "0.0.0.0",
    "GRADIO_SERVER_PORT": "7860",
}


def settings() -> dict[str, object]:
    _, front, _ = (ROOT / "README.md").read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(front)


def required() -> dict[str, str]:
    """Names in requirements.txt and what is asked of their version."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    found = (re.fullmatch(r"([\w-]+)(\[\w+\])?(.*)", line) for line in lines if line[:1] not in "#")
    return {match[1].lower(): match[3] for match in found if match}


def outside(module: Path) -> Iterator[tuple[str, bool]]:
    """(top name, whether a failure of it is caught) of every import in a file from elsewhere."""
    tree = ast.parse(module.read_text("utf-8"))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any("ImportError" in _caught(h) for h in node.handlers)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(name)):
                names = [name]
            case _:
                continue
        for top in {name.split(".")[0] for name in names} - OWN - set(sys.stdlib_module_names):
            yield top, id(node) in guarded


def _caught(handler: ast.ExceptHandler) -> str:
    return "" if handler.type is None else ast.unparse(handler.type)


def test_the_settings_are_what_a_space_reads():
    said = settings()
    assert said["sdk"] == "gradio"
    assert said["sdk_version"] == version("gradio")
    assert said["python_version"] == "3.11"
    assert (ROOT / str(said["app_file"])).samefile(app.__file__)
    assert said["license"] == "apache-2.0"
    assert len(str(said["short_description"])) <= 60
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {said["colorFrom"], said["colorTo"]} <= colours


def test_the_sdk_and_the_requirements_ask_for_one_gradio():
    assert required()["gradio"] == f"=={settings()['sdk_version']}"


def test_everything_that_is_imported_is_required_or_can_be_done_without():
    homes = packages_distributions()
    needed: dict[str, set[str]] = {}
    for path in (ROOT / "app.py", *(ROOT / "viz_app").rglob("*.py"), *core_files()):
        for name, is_guarded in outside(path):
            if not is_guarded:
                needed.setdefault(name, set()).add(path.name)
    assert {"gradio", "torch", "transformers", "numpy"} <= set(needed)
    there = {canonicalize_name(name) for name in required()}
    there |= {name for one in tuple(there) for name in brought(one)}
    for name, files in needed.items():
        home = {canonicalize_name(one) for one in homes.get(name, [name])}
        assert home & there, f"{name}, imported in {', '.join(sorted(files))}"


def brought(package: str) -> set[str]:
    """What comes with a package, whatever is asked of it."""
    needs = (Requirement(line) for line in requires(package) or ())
    return {
        canonicalize_name(need.name)
        for need in needs
        if need.marker is None or need.marker.evaluate({"extra": ""})
    }


def core_files() -> list[Path]:
    """The core, but for what trains models: no page does."""
    folder = ROOT / "specguard_core"
    return [path for path in folder.rglob("*.py") if "training" not in path.parts]


def test_a_spaces_environment_stands_for_flags_and_typed_ones_win():
    flags = app.environment_flags(ON_A_SPACE)
    given = app.parser().parse_args(flags)
    assert (given.host, given.port, given.public) == ("0.0.0.0", 7860, True)
    assert app.limits_of(given).max_tokens == PUBLIC_TOKENS
    assert app.parser().parse_args([*flags, "--port", "9"]).port == 9
    assert app.environment_flags({}) == []


def test_the_owner_of_a_space_gives_flags_by_a_variable():
    typed = '--draft "a model" --max-tokens 64'
    flags = app.environment_flags(ON_A_SPACE | {"SPECGUARD_FLAGS": typed})
    given = app.parser().parse_args(flags)
    assert (given.draft, given.max_tokens, given.public) == ("a model", 64, True)
    assert flags[-4:] == shlex.split(typed)


@pytest.mark.parametrize(("value", "is_zero"), [("true", True), ("1", True), ("", False)])
def test_zero_gpu_is_told_by_its_own_variable(value, is_zero):
    assert app.is_zero_gpu({"SPACES_ZERO_GPU": value}) == is_zero
    assert not app.is_zero_gpu({})


def test_zero_gpu_without_its_package_is_one_sentence_before_serving(monkeypatch, capsys):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", None)
    assert app.main([]) == 2
    said = capsys.readouterr().err
    assert "spaces package" in said
    assert said.count("\n") == 1
