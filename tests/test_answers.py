"""Which answer a text gives, and when two answers are the same: by hand, by law, under attack."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core import answers, math_equality
from specguard_core.answers import extract_answer, has_closed_box, same_answer
from specguard_core.math_equality import MathWorker, mathematically_equal

ROOT = Path(__file__).parents[1]
NUMBERS = st.integers(-(10**9), 10**9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"So the answer is \boxed{42}.", "42"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x : x > 0 \right\}}", r"\left\{ x : x > 0 \right\}"),
        (r"\boxed{a} and \boxed{unclosed", "a"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed {5}", "5"),
        (r"x = 5\\\boxed{6}", "6"),
        (r"\\boxed{6}", "6"),
        (r"put it in \boxed{}. It is 9.", "9"),
        (r"\fbox{3} or 4", "4"),
        (r"} { \boxed{8} {", "8"),
        (r"\boxed{12", "12"),
        ("12 + 8 = 20 apples.", "20"),
        ("She pays $1,234.50.", "1,234.50"),
        (r"She pays 1{,}234.", "1{,}234"),
        ("It falls to -5.", "-5"),
        ("It falls to -$5", "-$5"),
        ("10-5", "5"),
        ("a half is 1/2", "1/2"),
        (".5", ".5"),
        ("#### 42", "42"),
        ("no number", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_closed_box_else_the_last_number(text, expected):
    assert extract_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        (r"\boxed{42}", True),
        (r"\boxed{42", False),
        (r"\boxed{\frac{1}{2}", False),
        (r"\boxed{\}", False),
        (r"\boxed{ }", False),
        (r"\boxed{1} \boxed{2", True),
        ("42", False),
        ("", False),
    ],
)
def test_a_box_counts_once_it_is_closed_around_something(text, closed):
    assert has_closed_box(text) is closed


@given(st.text(alphabet="ab{}\\$ 1", max_size=30))
def test_no_text_makes_extraction_fail_and_a_closed_box_is_extracted(text):
    answer = extract_answer(text)
    assert answer is None or answer in text
    balanced = text.replace("{", "").replace("}", "").replace("\\", "")
    if balanced.strip():
        assert extract_answer(f"3 \\boxed{{{balanced}}} 4") == balanced.strip()


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "42."),
        ("42", " $42$ "),
        ("42", r"\(42\)"),
        ("42", r"\[ 42 \]"),
        ("42", "42.00"),
        ("42", "+42"),
        ("42", r"\boxed{42}"),
        ("1000", "1,000"),
        ("1000", r"1{,}000"),
        ("58,500", "58500"),
        ("58,500", r"58{,}500.0"),
        (r"\$16.50", "16.5"),
        ("16.50", r"\$16.50"),
        ("243", "$243 dollars"),
        ("-5", "- 5"),
        ("-5", "−5"),
        ("-5", "-$5"),
        ("0.5", "1/2"),
        ("0.5", r"\frac12"),
        (r"\frac{1}{2}", ".5"),
        (r"\dfrac{33}{100}", "0.33"),
        (r"\frac{243}{625}", r"\dfrac{243}{625}"),
        (r"\frac{3840}{289}", "13.287197231833910"),
        ("50", r"50\%"),
        ("0.5", "50%"),
        ("25%", "1/4"),
        ("90", r"90^\circ"),
        ("90", "90°"),
        ("5", r"5 \text{ cm}"),
        ("5", r"5\text{ cm}^2"),
        ("5", "5 square meters"),
        ("5 apples", "5 apple"),
        ("52_8", "52_{8}"),
        (r"\text{ellipse}", "Ellipse"),
        (r"\text{(A)}", "(A)"),
        ("p - q", "p-q"),
        ("(15,-29)", r"\left( 15, \; -29 \right)"),
        (
            r"\begin{pmatrix} -18 \\ -49 \\ 96 \end{pmatrix}",
            r"\begin{pmatrix}-18\\-49\\96\end{pmatrix}",
        ),
        (r"(0,9) \cup (9,36)", r"(0, 9)\cup(9, 36)"),
        (r"\frac{20000}{\pi}", r"\dfrac{20000}{\pi}"),
        (r"12\pi", "12π"),
    ],
)
def test_our_own_normalisation_settles_it_without_a_child_process(gold, answer, monkeypatch):
    monkeypatch.setattr(answers, "mathematically_equal", lambda *_: pytest.fail("asked the child"))
    assert same_answer(gold, answer)
    assert same_answer(answer, gold)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "43"),
        ("42", "-42"),
        ("42", "4.2"),
        ("1000", "1"),
        ("1/3", "0.333"),
        ("50", "0.5"),
        ("50%", "5"),
        ("5 cm", "5 dollars"),
        ("52_8", "52_9"),
        (r"\text{ellipse}", "circle"),
        ("42", "no answer"),
        ("0", ""),
        ("", ""),
        (" ", " "),
        ("0", None),
        (None, None),
    ],
)
def test_other_answers_are_told_apart_without_a_child_process(gold, answer, monkeypatch):
    monkeypatch.setattr(answers, "mathematically_equal", lambda *_: pytest.fail("asked the child"))
    assert not same_answer(gold, answer)
    assert not same_answer(answer, gold)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
        ("p - q", "-q + p"),
        (r"3 \pm 2 \sqrt{2}", r"3 + 2\sqrt{2}, 3 - 2\sqrt{2}"),
        (r"(-\infty, 2) \cup (3, \infty)", r"(3, \infty) \cup (-\infty, 2)"),
        (r"\cot x", r"\frac{\cos x}{\sin x}"),
        (r"1\frac{1}{2}", r"\frac{3}{2}"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        ("27", "x = 27"),
        ("6", r"2 \cdot 3"),
        ("x^2 + 1", "1 + x^2"),
    ],
)
def test_math_verify_settles_what_normalisation_does_not(gold, answer):
    assert same_answer(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(15,-29)", "(-29,15)"),
        ("[1,2]", "(1,2)"),
        ("x^2 + 1", "1 + x^3"),
        (r"1\frac{1}{2}", r"\frac{11}{2}"),
        (r"2^\frac12", "2^1/2"),
        ("3 4", "34"),
        (r"\infty", r"-\infty"),
        ("1", r"\sqrt"),
    ],
)
def test_math_verify_tells_other_answers_apart(gold, answer):
    assert not same_answer(gold, answer)


@given(NUMBERS, NUMBERS)
def test_whole_numbers_are_the_same_exactly_where_they_are_equal(left, right):
    assert same_answer(f"{left:,}", f"${right}.00$.") == (left == right)


@given(st.fractions(max_denominator=999).filter(lambda f: abs(f) < 10**6))
def test_a_fraction_is_itself_however_it_is_written(value):
    sign, top, bottom = "-" * (value < 0), abs(value.numerator), value.denominator
    assert same_answer(f"{sign}{top}/{bottom}", rf"{sign}\dfrac{{{top}}}{{{bottom}}}")
    assert same_answer(f"{value.numerator}/{bottom}", f"{float(value):.12f}")


@given(st.text(max_size=30), st.text(alphabet="0123456789.,/%${}\\ab frc-^", max_size=30))
def test_any_text_is_the_same_as_itself_and_none_makes_the_comparison_fail(one, other):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "mathematically_equal", lambda *_: False)
        assert isinstance(same_answer(one, other), bool)
        assert same_answer(other, one) == same_answer(one, other)
        if any(c.isalnum() for c in one):
            assert same_answer(one, f"  {one}  ")


def test_answers_are_compared_in_worker_threads():
    pairs = [("p - q", "-q + p"), ("x^2", "x^3"), ("6", r"2 \cdot 3")] * 4
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda pair: same_answer(*pair), pairs))
    assert verdicts == [True, False, True] * 4


@pytest.fixture
def worker():
    """A child with two seconds a question, ended after the test."""
    child = MathWorker(seconds=2.0)
    yield child
    child.close()


@pytest.mark.parametrize("hanging", [r"9^{9^{9^{9^9}}}", r"(x+1)^{9^{9}} + \sqrt{x}"])
def test_a_formula_that_hangs_is_given_up_in_time_and_the_next_is_answered(worker, hanging):
    assert worker.equal("6", r"2 \cdot 3") is True
    began = time.monotonic()
    assert worker.equal("2", hanging) is not True
    assert time.monotonic() - began < 2 * worker.seconds + 2
    assert worker.equal("p - q", "-q + p") is True


def test_a_child_that_was_killed_is_replaced_and_asked_again(worker):
    assert worker.equal("x", "x") is True
    worker._process.kill()
    assert worker.equal("p - q", "-q + p") is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals")
def test_ctrl_c_in_the_terminal_does_not_end_the_child(worker):
    assert worker.equal("x", "x") is True
    before = worker._process.pid
    worker._process.send_signal(signal.SIGINT)
    assert worker.equal("p - q", "-q + p") is True
    assert worker._process.pid == before


def test_a_child_that_cannot_start_leaves_the_normalised_comparison(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(math_equality, "_PROGRAM", broken)
    child = MathWorker()
    try:
        assert child.equal("1", "1") is None
        began = time.monotonic()
        assert child.equal("1", "1") is None
        assert time.monotonic() - began < 0.5  # it is not tried again
    finally:
        child.close()


def test_without_math_verify_answers_are_compared_as_text(monkeypatch):
    monkeypatch.setattr(math_equality, "_AVAILABLE", False)
    assert same_answer("p - q", "p-q")
    assert not same_answer("p - q", "-q + p")


def test_text_is_never_run_as_code(tmp_path):
    mark = tmp_path / "ran"
    code = f"__import__('pathlib').Path('{mark}').touch()"
    assert not same_answer("1", code)
    assert not mathematically_equal("1", code)
    assert not mark.exists()


def test_it_works_in_a_script_with_no_main_guard_and_leaves_no_process_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from specguard_core import answers, math_equality\n"
        "print(answers.same_answer('p - q', '-q + p'), math_equality._WORKER._process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    equal, pid = done.stdout.split()
    assert (equal, done.stderr) == ("True", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_importing_answers_starts_no_process():
    code = "import specguard_core.answers as a, specguard_core.math_equality as m, sys;"
    code += "assert a.same_answer('1,000', '1000') and m._WORKER._process is None;"
    code += "assert not {'sympy', 'math_verify'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 14_000,
        r"\boxed{" * 14_000 + "1" + "}" * 14_000,
        "{" * 100_000,
        "}" * 100_000,
        "\\" * 100_000,
        "\\boxed" + " " * 100_000,
        "1" * 100_000,
        "1," * 50_000,
        "1,111" * 20_000,
        "1{,}" * 25_000,
        "1/" * 50_000,
        "-" * 100_000,
        " " * 100_000,
        "." * 100_000,
        "$" * 100_000,
        r"\text{" * 16_000,
        r"\frac{1" * 14_000,
        "a " * 50_000,
        "1 " + "ab " * 33_000,
        "_{" * 50_000,
    ],
)
def test_hostile_texts_of_100_000_characters_take_linear_time(text):
    began = time.perf_counter()
    extract_answer(text)
    has_closed_box(text)
    same_answer(text, "7")
    same_answer("7", text + "8")
    assert time.perf_counter() - began < 5


def test_threads_share_one_child(worker):
    seen = []

    def ask():
        worker.equal("x", "x")
        seen.append(worker._process.pid)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
