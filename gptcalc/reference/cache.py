"""What is kept between steps: keys and values (or latents), oldest first, evicted once no later token sees them."""

from __future__ import annotations

from math import prod

import numpy as np

from gptcalc.reference.tally import Array


class Room:
    """An array with place for as many positions again, the second last axis, of which the first are taken."""

    def __init__(self, old: Array, n: int) -> None:
        """Begins with the old positions; n more will come."""
        held = old.shape[-2]
        self.array: Array = np.empty((*old.shape[:-2], 2 * (held + n), old.shape[-1]), old.dtype)
        self.array[..., :held, :] = old
        self.taken = held

    def takes(self, old: Array, n: int) -> bool:
        """Whether n positions have a place behind the old ones, and nobody else's are there."""
        newest = self.array[..., self.taken - 1 : self.taken, :]
        behind = old.base is self.array and newest.ctypes.data == old[..., -1:, :].ctypes.data
        return behind and self.taken + n <= self.array.shape[-2]

    def put(self, held: int, new: Array) -> Array:
        """The newest so many positions and the new ones behind them."""
        start = self.taken
        self.taken += new.shape[-2]
        self.array[..., start : self.taken, :] = new
        found: Array = self.array[..., start - held : self.taken, :]
        return found


class Cache:
    """Arrays by key and name, e.g. ("layers.3.attn", "k"), and how many tokens the sequence has."""

    def __init__(self, number_of_pass: int = 0, *, writes: bool = True) -> None:
        """`number_of_pass`: of a loop; each of its passes keeps what is its own. Without `writes` what comes is seen
        behind what is held, and not kept."""
        self.writes = writes
        self.start = "" if number_of_pass == 0 else f"pass {number_of_pass} "
        self.arrays: dict[tuple[str, str], Array] = {}
        self.names: dict[str, list[str]] = {}  # of what each sublayer holds
        self.rooms: dict[tuple[str, str], Room] = {}  # where arrays grow
        self.length = 0
        self.prompt = 0  # how many of its tokens came first, in one pass
        self.tokens: Array | None = None  # (B, length): what n-grams are looked up by, no numbers of a layer

    def of_pass(self, number: int, *, writes: bool = True) -> Cache:
        """The same for a pass of a loop."""
        own = Cache(number, writes=writes)
        own.arrays, own.names, own.length, own.tokens = self.arrays, self.names, self.length, self.tokens
        own.prompt, own.rooms = self.prompt, self.rooms
        return own

    def append(self, key: str, name: str, new: Array) -> Array:
        """What is held, followed by `new`, along the second last axis (positions)."""
        key = self.start + key
        old = self.arrays.get((key, name))
        if not self.writes:
            return new if old is None else np.concatenate([old, new], axis=-2)
        joined = new if old is None else self._longer(key, name, old, new)
        self._set(key, name, joined)
        return joined

    def _longer(self, key: str, name: str, old: Array, new: Array) -> Array:
        """`old` and behind it `new`, in the room that was left for it: a token more doesn't move those before it."""
        if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)):
            return np.concatenate([old, new], axis=-2)
        room, n = self.rooms.get((key, name)), new.shape[-2]
        if room is None or not room.takes(old, n):
            room = self.rooms[key, name] = Room(old, n)
        return room.put(old.shape[-2], new)

    def held(self, key: str, name: str) -> Array:
        """What was put or appended."""
        return self.arrays[self.start + key, name]

    def recent(self, key: str, new: Array, n: int) -> Array:
        """The n positions before `new` (B, T, C), zeros where there are none, followed by it. The last n stay."""
        key = self.start + key
        old = self.arrays.get((key, "recent"))
        if old is None:
            old = np.broadcast_to(new[:, :1] * 0.0, (new.shape[0], n, new.shape[2]))
        joined: Array = np.concatenate([old, new], axis=1)
        self._set(key, "recent", joined[:, joined.shape[1] - n :])
        return joined

    def state(self, key: str, name: str, start: Array) -> Array:
        """What is held of the past as one array that does not grow; at first `start`."""
        return self.arrays.get((self.start + key, name), start)

    def put(self, key: str, name: str, state: Array) -> None:
        """The state after this call's tokens."""
        self._set(self.start + key, name, state)

    def _set(self, key: str, name: str, array: Array) -> None:
        if (key, name) not in self.arrays:
            self.names.setdefault(key, []).append(name)
        self.arrays[key, name] = array

    def keep(self, key: str, n: int) -> None:
        """Drops all but the newest n positions of what a sublayer holds."""
        owner = self.start + key
        for name in self.names.get(owner, ()) if self.writes else ():
            array = self.arrays[owner, name]
            if array.shape[-2] > n:
                self.arrays[owner, name] = array[..., array.shape[-2] - n :, :]

    @property
    def elements(self) -> int:
        """How many numbers are held."""
        return sum(prod(array.shape) for array in self.arrays.values())

    def by_sublayer(self) -> dict[str, int]:
        """How many numbers each sublayer holds."""
        counts: dict[str, int] = {}
        for (key, _), array in self.arrays.items():
            counts[key] = counts.get(key, 0) + prod(array.shape)
        return counts
