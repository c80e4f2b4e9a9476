"""Equal layers without data are traced once: shapes know nothing of a layer's number, so that a further layer asks for
weights of the same shapes, multiplies, keeps and hands on the same. What a first one did is noted down, and done
again under the next one's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gptcalc.architecture import Block
from gptcalc.reference.step import Handed, Step
from gptcalc.reference.tally import Array, Event

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Traced:
    """What one layer did. Keys stand without the layer's prefix."""

    block: Block  # held, so that no other one gets its id
    prefix: str
    held: dict[tuple[str, str], Shape | None]  # what its cache held before, of what it holds now
    weights: dict[str, Array]
    picked: dict[str, int]
    idle: set[str]
    flops: list[int]
    events: list[tuple[str, Event]]  # with the prefix that its place had: the layer's, or none
    cached: dict[tuple[str, str], Array]
    handed: Handed
    place: str
    out: Array


class Repeated:
    """The layers of one stack in one step."""

    def __init__(self, step: Step, *, apart: bool = False) -> None:
        """apart: layers differ by more than their block and what is handed on, such as by all streams before them."""
        self.step = step
        self.always = apart or isinstance(step.tokens, np.ndarray) or step.attention is not None
        self.traced: dict[tuple[object, ...], Traced] = {}

    def layer(self, block: Block, x: Array, prefix: str, run: Callable[[], Array]) -> Array:
        """The stream after a layer, whose keys begin with `prefix`: run, or as an equal one before it."""
        if self.always:
            return run()
        key = (id(block), x.shape, self._shapes(self.step.handed))
        known = self.traced.get(key)
        if known is not None and known.held == self._held(known, prefix):
            return self._again(known, prefix)
        self.traced[key] = self._noted(block, prefix, run)
        return self.traced[key].out

    def _held(self, known: Traced, prefix: str) -> dict[tuple[str, str], Shape | None]:
        arrays = self.step.cache.arrays
        return {
            (place, name): held.shape if (held := arrays.get((prefix + place, name))) is not None else None
            for place, name in known.held
        }

    @staticmethod
    def _shapes(handed: Handed) -> tuple[object, ...]:
        shared, *others = handed
        shapes = tuple((key, tuple((name, x.shape) for name, x in held.items())) for key, held in shared.items())
        return (shapes, *(None if x is None else x.shape for x in others))

    def _noted(self, block: Block, prefix: str, run: Callable[[], Array]) -> Traced:
        """Runs a layer and takes note of what it did."""
        memory, tally, cache, n = self.step.memory, self.step.tally, self.step.cache, len(prefix)
        asked, flops, events = len(memory.asked), list(tally.flops.values()), len(tally.events or ())
        before = {key: array.shape for key, array in cache.arrays.items() if key[0].startswith(prefix)}
        out = run()
        own = [key for key in list(memory.asked)[asked:] if key.startswith(prefix)]
        after = {key: array for key, array in cache.arrays.items() if key[0].startswith(prefix)}
        return Traced(
            block=block,
            prefix=prefix,
            held={(place[n:], name): before.get((place, name)) for place, name in after},
            weights={key[n:]: memory.arrays[key] for key in own},
            picked={key[n:]: k for key, k in memory.picked.items() if key.startswith(prefix)},
            idle={key[n:] for key in memory.idle if key.startswith(prefix)},
            flops=[now - then for now, then in zip(tally.flops.values(), flops, strict=True)],
            events=[_apart(event, prefix) for event in (tally.events or ())[events:]],
            cached={(place[n:], name): array for (place, name), array in after.items()},
            handed=self.step.handed,
            place=self.step.place[n:],
            out=out,
        )

    def _again(self, known: Traced, prefix: str) -> Array:
        """The same under another prefix."""
        step = self.step
        for name, array in known.weights.items():
            step.memory.arrays[prefix + name] = array
            step.memory.asked[prefix + name] = array.shape
        for name, k in known.picked.items():
            step.memory.picked[prefix + name] = k
        step.memory.idle |= {prefix + name for name in known.idle}
        for kind, flops in zip(step.tally.flops, known.flops, strict=True):
            step.tally.flops[kind] += flops
        if step.tally.events is not None:
            of_layer = {"": "", known.prefix: prefix}
            step.tally.events += [event._replace(place=of_layer[start] + event.place) for start, event in known.events]
        for (place, name), array in known.cached.items():
            step.cache.put(prefix + place, name, array)
        step.handed, step.place = known.handed, prefix + known.place
        return known.out


def _apart(event: Event, prefix: str) -> tuple[str, Event]:
    """The prefix of an event's place, where it is the layer's own, and the event with what is left of it."""
    if not event.place.startswith(prefix):
        return "", event
    return prefix, event._replace(place=event.place[len(prefix) :])
