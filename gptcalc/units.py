"""Sizes as people write and read them: 8K tokens, 24GiB, 12..96..12; 30.5 B parameters, 1.00 GiB.

The only home of prefixes, powers and number formats. Parsing is exact; only text for people is rounded.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from gptcalc.errors import InputError, printable

#: a lower-case suffix counts in thousands, an upper-case one in 1024s, as serving engines read them
COUNT_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}

BYTE_UNITS = {
    "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
}  # fmt: skip

#: 24gb is 24GB: no one means bits
_SPELLED = {unit.lower(): unit for unit in BYTE_UNITS}

MAX_DIGITS = 30
#: how a whole number is written
WHOLE = "write 8192, 8K (8192) or 8k (8000)"
MAX_POINTS = 10_000_000

_COUNT = r"([0-9]+(?:_[0-9]+)*)(\.[0-9]+)?([kmgKMG]?)"
_PARAMETERS = r"([0-9]+(?:\.[0-9]+)?)([kmbtKMBT]?)"
_FLOPS = r"([0-9]+(?:\.[0-9]+)?) ?([kmgbtpezKMGBTPEZ]?)(?:FLOPS?|FLOPs|flops?)?"
_BYTES = r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)"


def count(text: str) -> int:
    """A whole number: 4096, 8K = 8192, 8k = 8000, 1M = 2^20, 25.6k = 25600."""
    match = re.fullmatch(_COUNT, text.strip())
    if match is None or len(text) > MAX_DIGITS:
        raise InputError(f"{printable(text)!r} is not a whole number", WHOLE, "usage")
    whole, fraction, suffix = match.groups()
    value = Fraction(whole.replace("_", "") + (fraction or "")) * COUNT_SUFFIXES[suffix]
    if value.denominator != 1 or (fraction and suffix.isupper()):
        hint = "8k counts in 1000s, 8K in 1024s" if suffix else WHOLE
        raise InputError(f"{printable(text)!r} is not a whole number", hint, "usage")
    return value.numerator


def positive(text: str) -> int:
    """A whole number of at least one."""
    value = count(text)
    if value < 1:
        raise InputError(f"{printable(text)!r} is less than 1", kind="usage")
    return value


def size(text: str) -> int:
    """Bytes with their unit: 24GiB = 24 · 2^30, 80GB = 80 · 10^9. A bare number is refused."""
    match = re.fullmatch(_BYTES, text.strip())
    if match is None or len(text) > MAX_DIGITS:
        raise InputError(f"{printable(text)!r} is not a size of memory", "write 24GiB or 80GB", "usage")
    number, unit = match.groups()
    unit = _SPELLED.get(unit.lower(), unit)
    if unit not in BYTE_UNITS:
        problem = f"has an unknown unit {printable(unit)!r}" if unit else "has no unit"
        hint = f"write {number}GiB (2^30 bytes each) or {number}GB (10^9)"
        raise InputError(f"size {printable(text)!r} {problem}", hint, "usage")
    return int(Fraction(number) * BYTE_UNITS[unit])


def points(text: str) -> list[int]:
    """The whole numbers of a range: 12..96..12 in steps, 1K..1M by doubling (both ends included), or 1,8,64."""
    values: list[int] = []
    for item in text.split(","):
        values += _points_of(item, room=MAX_POINTS - len(values))
    return values


#: as parameters are spoken of, in capitals or not
PARAMETERS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
FLOPS = {**PARAMETERS, "G": 10**9, "P": 10**15, "E": 10**18, "Z": 10**21}


def span(text: str) -> tuple[int, int | None]:
    """A range of parameters: 7B..9B, ..1.5B or 70B.. (no end); a single 8B means what rounds to it."""
    ends = text.split("..")
    if len(ends) == 1:
        low = parameters(text)
        step = Fraction(PARAMETERS[text.strip()[-1].upper()] if text.strip()[-1].isalpha() else 1, 10 ** _places(text))
        return int(low - step / 2), int(low + step / 2)
    if len(ends) != 2:
        raise InputError(f"{printable(text)!r} is not a range of sizes", "write 7B..9B, ..1.5B or 70B..", "usage")
    first, last = (end.strip() for end in ends)
    if first[-1:].isdigit() and last[-1:].isalpha():
        first += last[-1]  # 7..9B: the unit is that of both
    low, high = parameters(first) if first else 0, parameters(last) if last else None
    if high is not None and high < low:
        raise InputError(f"range {printable(text)!r} runs downwards", "write the smaller one first", "usage")
    return low, high


def parameters(text: str) -> int:
    """A number of parameters: 1.5B, 350M."""
    match = re.fullmatch(_PARAMETERS, text.strip())
    if match is None or len(text) > MAX_DIGITS:
        raise InputError(f"{printable(text)!r} is not a number of parameters", "write 1.5B or 350M", "usage")
    return int(Fraction(match[1]) * PARAMETERS[match[2].upper()])


def flops(text: str) -> int:
    """A number of FLOPs as it is shown, 20.5 GFLOP or 2T; or as of parameters, 20B."""
    match = re.fullmatch(_FLOPS, text.strip())
    if match is None or len(text) > MAX_DIGITS:
        raise InputError(f"{printable(text)!r} is not a number of FLOPs", "write 20GFLOP or 2e12", "usage")
    return int(Fraction(match[1]) * FLOPS[match[2].upper()])


def _places(number: str) -> int:
    return len(number.strip().upper().rstrip("KMBT").partition(".")[2])


def _points_of(item: str, room: int) -> list[int]:
    ends = item.split("..")
    if len(ends) > 3 or "" in ends:
        hint = "write 12..96..12 (steps), 1K..1M (doubling) or 1,8,64"
        raise InputError(f"{printable(item)!r} is not a range", hint, "usage")
    first, *rest = (positive(end) for end in ends)
    if not rest:
        return [first]
    last = rest[0]
    if last < first:
        raise InputError(f"range {printable(item)!r} runs downwards", kind="usage")
    if len(rest) == 1:
        values = [first << power for power in range((last // first).bit_length())]
    elif (last - first) // rest[1] >= room:
        raise InputError(f"range {printable(item)!r} has more than {MAX_POINTS} points", kind="usage")
    else:
        values = list(range(first, last + 1, rest[1]))
    return values if values[-1] == last else [*values, last]


# --- for people -------------------------------------------------------------------------------------------------------

_THOUSANDS = ("", "k", "M", "B", "T")  # as parameters are spoken of: 30.5 B
_SI = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def grouped(value: int | Fraction) -> str:
    """Every digit, thousands separated: 30,532,122,624."""
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.3f}"


def sequences(n: int) -> str:
    """1 sequence, 2 sequences."""
    return "1 sequence" if n == 1 else f"{grouped(n)} sequences"


def short_count(value: int | Fraction) -> str:
    """Three digits and the word people use: 30.5 B (billion), 124 M."""
    return _scaled(Fraction(value), 1000, _THOUSANDS)


def short_bytes(value: int | Fraction) -> str:
    """Three digits in 1024s: 1.00 GiB."""
    return _scaled(Fraction(value), 1024, _BINARY)


def short_si(value: int | float | Fraction, unit: str) -> str:
    """Three digits with an SI prefix: 2.15 TFLOP."""
    return _scaled(Fraction(value), 1000, _SI, unit)


def duration(seconds: float) -> str:
    """A time: 12.3 ms, 4.56 s."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= length:
            return f"{_three_digits(Fraction(seconds / length))} {unit}"
    return f"{_three_digits(Fraction(seconds * 1e9))} ns"


def percent(part: int | Fraction, whole: int | Fraction) -> str:
    """A share with one digit behind the point; what would round to zero says so."""
    if part and Fraction(part) / whole < Fraction(1, 2000):
        return "<0.1%"
    return f"{float(Fraction(part) / whole if whole else 0):.1%}"


def ratio(a: int | Fraction, b: int | Fraction) -> str:
    """b as a multiple of a."""
    return "–" if not a else f"{_three_digits(Fraction(b) / Fraction(a))}×"


def _scaled(value: Fraction, base: int, prefixes: tuple[str, ...], unit: str = "") -> str:
    if value < 0:
        return "-" + _scaled(-value, base, prefixes, unit)
    power = 0
    while power + 1 < len(prefixes) and float(_three_digits(value / base**power)) >= base:
        power += 1
    name = prefixes[power] + unit
    if power == 0 and value.denominator == 1:
        return f"{value.numerator} {name}".rstrip()
    return f"{_three_digits(value / base**power)} {name}".rstrip()


def _three_digits(value: Fraction) -> str:
    """At least three digits: 1.00, 12.3, 123, 1234."""
    places = 2 if value < Fraction(1999, 200) else 1 if value < Fraction(1999, 20) else 0
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.{places}f}"
