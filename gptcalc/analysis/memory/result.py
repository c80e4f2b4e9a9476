"""What `gptcalc memory` answers, for inference and for training alike."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from gptcalc.answers import Outcome


class Device(Struct, frozen=True, kw_only=True):
    """Bytes that one device holds. `kv` includes recurrent states."""

    weights: int = 0
    kv: int = 0
    activations: int = 0
    gradients: int = 0
    optimizer: int = 0
    overhead: int = 0
    total: int = 0

    @classmethod
    def holding(
        cls,
        *,
        weights: int = 0,
        kv: int = 0,
        activations: int = 0,
        gradients: int = 0,
        optimizer: int = 0,
        overhead: int = 0,
    ) -> Device:
        """A device with these parts, their sum filled in."""
        total = weights + kv + activations + gradients + optimizer + overhead
        return cls(
            weights=weights,
            kv=kv,
            activations=activations,
            gradients=gradients,
            optimizer=optimizer,
            overhead=overhead,
            total=total,
        )


#: the parts of a device's memory, in the order in which they are shown
PARTS = tuple(name for name in Device.__struct_fields__ if name != "total")


def added(devices: Iterable[tuple[Device, int]]) -> Device:
    """The sum over devices, each kind with how many there are."""
    sums = dict.fromkeys(PARTS, 0)
    for device, times in devices:
        for part in PARTS:
            sums[part] += times * getattr(device, part)
    return Device.holding(**sums)


class Replicated(Struct, frozen=True):
    """What several devices hold alike: the bytes beyond one copy, over all devices."""

    name: str
    bytes: int
    part: str = "weights"


class Tensors(Struct, frozen=True):
    """Equal tensors on the fullest device: how many, and what one takes."""

    name: str
    component: str
    type: str
    count: int
    params: int
    bytes: int

    @property
    def total(self) -> int:
        return self.count * self.bytes


class Memory(Outcome, frozen=True, kw_only=True):
    """The keys of `gptcalc memory --json`. `per_device` is the fullest device; `total` the sum over all devices."""

    model: str
    devices: int
    per_device: Device
    total: int
    sums: Device  # over all devices, part by part
    replicated: tuple[Replicated, ...] = ()  # what `sums` counts more than once
    batch: int
    context: int
    dtype: str
    kv_dtype: str | None = None  # inference only
    engine: str | None = None  # inference only
    phase: str  # prefill, decode or train
    parallel: dict[str, int]  # tp, pp, ep, dp
    exact: tuple[str, ...] = ()  # which parts are exact arithmetic, and of what
    estimated: tuple[str, ...] = ()  # which parts are an estimate, and of what
    notes: tuple[str, ...] = ()
    passes: str | None = None  # how a prompt is run; inference only
    published: bool = False  # whether the weights are as the model is published
    draft: str | None = None  # a model beside it that proposes tokens
    host: int = 0  # bytes kept in the host's memory, by offload
    pieces: dict[str, int] = field(
        default_factory=dict
    )  # finer parts of the fullest device: kv.window, activations.logits, …
    tensors: tuple[Tensors, ...] = ()  # the weights of the fullest device
