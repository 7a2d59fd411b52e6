"""Laws and cases of the equation check: what is found in a text, and what does not hold."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguard_core.equations import equation_errors, equations, find_equations

SMALL = st.integers(0, 999)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He now has 12 + 8 = 20 apples.", ["8+12=20"]),
        ("So 3 * 60 = 180.", ["3*60=180"]),
        ("3 × 60 = 180, then 180 ÷ 2 = 90", ["3*60=180", "180/2=90"]),
        ("3 x 60 = 180 and 3x60=180", ["3*60=180", "3*60=180"]),
        (r"$3 \times 60 = 180$ and \(180 \div 2 = 90\)", ["3*60=180", "180/2=90"]),
        (r"\[3 \cdot 60 = 180.\]", ["3*60=180"]),
        (r"\frac{12}{4} = 3", ["((12)/(4))=3"]),
        ("It costs $16.50 + $22.50 = $39.00 in all", ["16.5+22.5=39"]),
        (r"\$16.50 \times 3 = \$49.50", ["3*16.5=49.5"]),
        ("1,200 - 200 = 1,000", ["1200-200=1000"]),
        (r"1{,}200 - 200 = 1{,}000", ["1200-200=1000"]),
        ("25% * 80 = 20", ["80*25%=20"]),
        (r"25\% of 80 = 20", ["80*25%=20"]),
        ("3 sprints * 60 meters = 180 meters", ["3*60=180"]),
        ("20 = 12 + 8", ["8+12=20"]),
        ("2 + 3 + 4 = 5 + 4 = 9", ["2+3+4=4+5", "4+5=9"]),
        ("(2 + 3) * 4 = 20", ["(2+3)*4=20"]),
        ("2(3 + 4) = 14", ["2*(3+4)=14"]),
        ("He has 8 (that is, 5 + 3 = 8) apples", ["3+5=8"]),
        ("He has 8 (5 + 3 = 8) apples", ["3+5=8"]),
        ("1. 5 + 3 = 8\n2) 8 - 2 = 6\n- 6 / 3 = 2", ["3+5=8", "8-2=6", "6/3=2"]),
        ("**5 + 3 = 8**", ["3+5=8"]),
        ("5 + 3 = 8 - a start", ["3+5=8"]),
        ("-3 + 5 = 2", ["-3+5=2"]),
        (r"The answer is \boxed{5 + 3 = 8}.", ["3+5=8"]),
        ("12/4=3", ["12/4=3"]),
    ],
)
def test_an_equation_is_found_however_it_is_written(text, expected):
    assert [equation.text for equation in find_equations(text)] == expected
    assert equation_errors(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no numbers at all",
        "x = 5",
        "5 = 5",
        "2x + 3 = 7",
        "x - 3 + 2 = 4",
        "total - 3 + 2 = 4",
        "2^3 + 1 = 9",
        "2**3 + 1 = 9",
        "5 + 3 >= 8",
        "5 + 3 != 9",
        "5 + x = 9",
        r"\sqrt{4} + 1 = 3",
        "5 + = 8",
        "5 + 3 =",
        "= 8",
        "(((",
        "5 3 = 8",
        "12 + 8x = 20",
        "10 \u2248 3 + 7",
    ],
)
def test_what_is_not_plain_arithmetic_is_no_equation(text):
    assert equations(text) == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("12 + 8 = 21", ["8+12=21"]),
        ("12 + 8 = 20 and 20 * 3 = 61", ["3*20=61"]),
        ("7 / 2 = 4", ["7/2=4"]),
        ("7 / 2 = 3.5", []),
        ("10 / 3 = 3.33", []),
        ("10 / 3 = 3.34", ["10/3=3.34"]),
        ("5 / 0 = 0", ["5/0=0"]),
        ("2 + 3 * 4 = 20", ["2+3*4=20"]),
        ("2 + 3 * 4 = 14", []),
        ("10 - 3 - 2 = 5", []),
        ("100 / 5 / 2 = 10", []),
        ("10 - (3 - 2) = 9", []),
        ("2 * -3 = -6", []),
        ("0.1 + 0.2 = 0.3", []),
        ("50% * 10 = 6", ["10*50%=6"]),
        ("1 / 4 = 25%", []),
        ("2 + 3 = 5 * 2 = 10", ["2+3=2*5"]),
    ],
)
def test_an_equation_that_does_not_hold_is_named(text, wrong):
    assert [equation.text for equation in equation_errors(text)] == wrong


@given(SMALL, SMALL)
def test_a_true_sum_holds_and_any_other_result_does_not(left, right):
    assert equation_errors(f"{left} + {right} = {left + right}") == ()
    (error,) = equation_errors(f"{left} + {right} = {left + right + 1}")
    assert (error.left, error.right) == (Fraction(left + right), Fraction(left + right + 1))


@given(SMALL, SMALL, st.sampled_from("+*"))
def test_the_order_of_terms_makes_no_other_equation(left, right, operator):
    assert equations(f"{left} {operator} {right} = 7") == equations(f"{right}{operator}{left}=7")


@given(st.lists(st.tuples(SMALL, SMALL), max_size=5))
def test_equations_of_two_texts_add_up(pairs):
    sentences = [f"Then {a} + {b} = {a + b} in all." for a, b in pairs]
    total = sum((equations(sentence) for sentence in sentences), start=equations(""))
    assert equations("\n\n".join(sentences)) == total


@given(st.text(max_size=40) | st.text(alphabet="0123456789+-*/=().,%$ x\n\\{}a", max_size=80))
def test_no_text_makes_the_check_fail(text):
    for equation in find_equations(text):
        assert isinstance(equation.holds, bool)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 100_000 + " + 1 = 2",
        "1 + " * 25_000 + "1 = 2",
        "(" * 100_000 + "1 = 2",
        ")" * 100_000,
        "1 = " * 25_000,
        r"\frac{" * 16_000,
        r"\frac{1}{" * 11_000,
        "apple " * 16_000 + "= 2",
        "1 apple " * 12_000,
        "1,111" * 20_000,
        "a-" * 50_000,
        "1." * 50_000,
        "1," * 50_000,
        "1 x " * 25_000,
        "*" * 100_000,
        " " * 100_000,
    ],
)
def test_hostile_texts_of_100_000_characters_take_linear_time(text):
    start = time.perf_counter()
    find_equations(text)
    assert time.perf_counter() - start < 5
