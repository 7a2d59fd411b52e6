"""How numbers are written on the page: a true minus sign, and as many digits as carry meaning."""

import math
from collections.abc import Sequence

MINUS = "\u2212"


def fixed(value: float, decimals: int = 3) -> str:
    """The value with so many decimals; never a negative zero."""
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def significant(value: float, digits: int = 3) -> str:
    """The value with so many significant digits, in plain notation down to 0.0001."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4:
        return f"{value:.1e}".replace("-", MINUS)
    return fixed(value, max(digits - 1 - exponent, 0))


def nats(value: float) -> str:
    """A log-probability or entropy: three significant digits, but no more than three decimals."""
    return fixed(value, 3) if abs(value) < 1 else significant(value)


def signed(value: float, decimals: int = 3) -> str:
    """The value with its sign, plus included."""
    text = fixed(value, decimals)
    return text if text.startswith(MINUS) or float(text) == 0 else f"+{text}"


def milliseconds(value: float) -> str:
    """A duration to a tenth; from 1,000 ms on whole, with a thousands comma."""
    return f"{value:,.0f}" if value >= 1000 else fixed(value, 1)


def megabytes(n_bytes: int) -> str:
    """A size in kB or MB, three significant digits."""
    return (
        f"{significant(n_bytes / 1e3)} kB" if n_bytes < 1e6 else f"{significant(n_bytes / 1e6)} MB"
    )


def decimals_apart(first: float, second: float, *, least: int = 3, most: int = 9) -> int:
    """Decimals at which two different values are also written differently."""
    for decimals in range(least, most):
        if first == second or fixed(first, decimals) != fixed(second, decimals):
            return decimals
    return most


def adding_up(parts: Sequence[float], decimals: int) -> list[float]:
    """The parts rounded so that they add up to their rounded sum; what is cut most is raised."""
    unit = 10.0**-decimals
    total = round(math.fsum(parts) / unit)
    floors = [math.floor(part / unit + 1e-9) for part in parts]
    short = total - sum(floors)
    by_loss = sorted(range(len(parts)), key=lambda i: floors[i] - parts[i] / unit)
    for index in by_loss[: max(short, 0)]:
        floors[index] += 1
    return [round(count * unit, decimals) for count in floors]


def level(share: float) -> int:
    """A share of [0, 1] as one of the ten colours of a ramp; outside it the nearest end."""
    return 0 if math.isnan(share) else round(9 * min(max(share, 0.0), 1.0))


def nice_ticks(low: float, high: float) -> list[float]:
    """Two or three round values inside [low, high]."""
    span = high - low
    if span <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span))
    for step in (5 * power, 2 * power, power, power / 2, power / 5, power / 10):
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first + 1 >= 2:
            count = last - first + 1
            stride = max(1, math.ceil((count - 1) / 2))
            return [round(i * step, 12) for i in range(first, last + 1, stride)]
    return [low, high]


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """A tick with the decimals its axis needs."""
    decimals = 0
    while decimals < 4 and any(abs(t - round(t, decimals)) > 1e-9 for t in ticks):
        decimals += 1
    return "0" if value == 0 else fixed(value, decimals)
