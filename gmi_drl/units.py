"""Formats numbers and names for people."""

import shlex
from collections.abc import Iterable, Sequence

GIB = 2**30


def human_bytes(count: float) -> str:
    """`3972844748` -> `"3.7 GiB"`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def human_gib(size: float) -> str:
    """`0.5` -> `"512.0 MiB"`, `267565` -> `"261.3 TiB"`."""
    return human_bytes(size * GIB)


def human_count(count: float) -> str:
    """`151234` -> `"151.2k"`."""
    for unit in ("", "k", "M", "G"):
        if abs(count) < 1000:
            return f"{count:.0f}" if unit == "" else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}T"


def human_money(amount: float) -> str:
    """`1.3889` -> `"1.39"`, `0.05123` -> `"0.0512"`, `20000` -> `"20,000"`."""
    if amount >= 100:
        return f"{amount:,.0f}"
    return f"{amount:.2f}" if amount >= 1 or amount == 0 else f"{amount:.3g}"


def counted(number: int, thing: str) -> str:
    """`(2, "GMI")` -> `"2 GMIs"`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def human_seconds(seconds: float) -> str:
    """`83.2` -> `"1 min 23 s"`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def human_value(value: float, unit: str) -> str:
    """A measured value: `(7.3e-5, "s")` -> `"73.0 us"`, `(12954, "steps/s")` -> `"13.0k steps/s"`."""
    if unit == "s":
        if abs(value) >= 1:
            return human_seconds(value)
        return f"{value * 1e6:.1f} us" if abs(value) < 1e-3 else f"{value * 1e3:.1f} ms"
    if unit == "bytes":
        return human_bytes(value)
    number = human_count(value) if abs(value) >= 999.5 else f"{value:.3g}"
    return f"{number} {unit}".strip()


def human_ranges(numbers: Iterable[int]) -> str:
    """`(0, 1, 2, 5)` -> `"0-2,5"`, as the kernel writes sets of cores."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def alternatives(names: Sequence[str]) -> str:
    """`["a", "b", "c"]` -> `"a, b or c"`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def quoted(value: object) -> str:
    """A path or a name as one word of a command that is copied to a shell: `my run` -> `'my run'`."""
    return shlex.quote(str(value))
