"""What the keys of a sublayer's weights begin with: attn.q, mlp.up; the second of a kind in a block is attn2, …"""

from msgspec import Struct


class Prefix(Struct, frozen=True):
    """A kind of sublayer, and the how manieth of its kind in a block it is; the section, where all layers that have it
    share its weights."""

    kind: str
    number: int = 1
    shared: str = ""

    def __str__(self) -> str:
        return self.kind if self.number == 1 else f"{self.kind}{self.number}"


class Prefixes:
    """Hands out the prefixes of one block, in order of execution."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def next(self, kind: str) -> Prefix:
        found = self.coming(kind)
        self.seen[kind] = found.number
        return found

    def coming(self, kind: str) -> Prefix:
        """The next one of a kind, which is not handed out yet."""
        return Prefix(kind, self.seen.get(kind, 0) + 1)
