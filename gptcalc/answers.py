"""What every answer of an analysis is in Python: a struct of exact figures, whose fields are the keys of the JSON."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Rational
from typing import Any, ClassVar

from msgspec import Struct, to_builtins

#: fields that a short form shows
SHOWN = 4


def plain(value: Any) -> Any:
    """A fraction (of elements a token, where several tokens share an entry) as a decimal number."""
    if isinstance(value, Rational):
        return float(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


class Outcome(Struct, frozen=True):
    """An answer. Its repr shows the first single values; a notebook shows its tables."""

    html: ClassVar[Callable[[Any], str] | None] = None  # how notebooks draw it, where the Python API is loaded

    def to_dict(self) -> dict[str, Any]:
        """The answer as the JSON has it."""
        found: dict[str, Any] = to_builtins(self, enc_hook=plain)
        return found

    def __repr__(self) -> str:
        single = [
            f"{name}={value!r}"
            for name in self.__struct_fields__
            if isinstance(value := getattr(self, name), (str, int, float)) and (value or isinstance(value, bool))
        ]
        more = ["…"] if len(self.__struct_fields__) > SHOWN else []
        return f"{type(self).__name__}({', '.join([*single[:SHOWN], *more])})"

    def _repr_html_(self) -> str | None:
        draw = type(self).html
        return None if draw is None else draw(self)
