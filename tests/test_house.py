"""The house itself: directions, sizes, a light import, and documents that say what is true."""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specguard_core.bundled import DRAFT, TARGET
from tests.conftest import require_folders

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "gradio", "plotly", "networkx")
CODE = sorted(
    path for folder in ("specguard_core", "viz_app") for path in (ROOT / folder).rglob("*.py")
)
README = ROOT / "README.md"


def run_python(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def fenced(document: Path, language: str) -> list[str]:
    """The code blocks of a Markdown file that carry this language."""
    return re.findall(rf"```{language}\n(.*?)```", document.read_text("utf-8"), re.DOTALL)


def imported(module: Path) -> Iterator[str]:
    """Names of the modules a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(name)):
                yield name


def readme_commands(start: str) -> list[list[str]]:
    lines = [line for block in fenced(README, "bash") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(start)]


def test_importing_the_core_loads_no_heavy_library():
    loaded = f"import specguard_core, sys; print([n for n in {HEAVY} if n in sys.modules])"
    outcome = run_python("-c", loaded)
    assert (outcome.stdout.strip(), outcome.stderr) == ("[]", "")


def test_every_public_name_resolves_and_an_unknown_one_does_not():
    import specguard_core

    for name in specguard_core.__all__:
        assert getattr(specguard_core, name) is not None
    with pytest.raises(AttributeError, match="decode_everything"):
        specguard_core.decode_everything  # noqa: B018


def test_imports_point_the_right_way():
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    outcome = run_python("-c", lint, "--no-logo", "--no-cache")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_app_stands_on_the_page_and_the_core_alone():
    others = {name.split(".")[0] for name in imported(ROOT / "app.py")}
    assert others - set(sys.stdlib_module_names) <= {"specguard_core", "viz_app", "gradio"}


@pytest.mark.parametrize("path", [*CODE, ROOT / "app.py"], ids=lambda path: path.stem)
def test_a_module_has_at_most_400_lines_and_says_what_it_is(path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))


def test_tests_and_scripts_of_the_page_have_at_most_400_lines():
    others = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "viz_app" / "static").glob("*.js")]
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in others}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_the_readme_shows_the_commands_that_exist():
    text = README.read_text("utf-8")
    for command in (
        "pip install -r requirements.txt",
        "python app.py",
        "pip install -r requirements-dev.txt",
        "pytest",
    ):
        assert command in text
    for named in re.findall(r"-r (requirements[\w-]*\.txt)", text):
        assert (ROOT / named).is_file()
    for link in re.findall(r"\]\((?!https?:|#)([^)]+)\)", text):
        assert (ROOT / link.split("#")[0]).exists(), link


def test_the_readme_names_every_preset_and_strategy():
    from specguard_core.presets import PRESETS
    from specguard_core.strategies import STRATEGIES

    text = README.read_text("utf-8")
    assert [name for name in (*PRESETS, *STRATEGIES) if f"`{name}`" not in text] == []


def test_the_readme_python_runs(tmp_path):
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    (example,) = fenced(README, "python")
    outcome = run_python("-c", example, folder=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "boxed" in outcome.stdout
    assert (tmp_path / "trace.json").is_file()


def test_the_readme_command_lines_are_understood():
    from specguard_core.cli import build_parser

    commands = readme_commands("python -m specguard_core")
    assert len(commands) >= 5
    for command in commands:
        assert build_parser().parse_args(command[3:])


def test_the_readme_flags_of_the_page_are_understood():
    import app

    commands = readme_commands("python app.py")
    assert len(commands) >= 2
    for command in commands:
        assert app.parser().parse_args(command[2:])


def test_missing_weights_are_a_fault_in_ci_and_a_skip_elsewhere(tmp_path):
    require_folders([DRAFT, TARGET], in_ci=True)
    for in_ci, outcome in ((True, pytest.fail.Exception), (False, pytest.skip.Exception)):
        with pytest.raises(outcome, match="expected abacus-none in assets/models"):
            require_folders([DRAFT, tmp_path / "abacus-none"], in_ci=in_ci)


def test_scripts_for_people_and_ci_can_be_run():
    for script in ("scripts/check", ".ci/run"):
        assert os.access(ROOT / script, os.X_OK)
        subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_an_unknown_part_of_the_checks_is_answered_with_the_menu():
    outcome = subprocess.run(
        [ROOT / "scripts/check", "typos"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert outcome.returncode == 2
    assert "choose from lint, format, types, imports" in outcome.stderr
