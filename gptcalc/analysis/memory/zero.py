"""Weights, gradients and optimiser states of a training step on one device, and how ZeRO spreads them.

ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054) divides among the N data parallel ranks that would hold the same:
stage 1 the optimiser's states and master weights (Megatron-LM's distributed optimizer: 6 + 12/N bytes a parameter with
Adam), stage 2 the gradients too, stage 3 the weights too (FSDP). The bytes are those of DeepSpeed's own tables
(docs/code-docs/source/memory.rst, estimate_zero2/zero3_model_states_mem_needs):

    stage 2   4 + 16/N a parameter: weights and gradients in 16 bits whole, gradients in fp32 and 12 of Adam divided
    stage 3   18/N a parameter, and 4 of the largest layer, whose weights and gradients are whole in 16 bits for a while

A layer is there a module with weights of its own: a matrix or table with its bias. FSDP gathers what it was told to
wrap, often a whole block. Gradients that are kept in 16 bits have no second, whole copy in stage 2 (the paper's
2 + 14/N). With one rank nothing is divided and nothing gathered.

Offload to the host (ZeRO-Offload, arXiv:2101.06840) leaves of stage 2 the 16-bit weights, of stage 3 2/N and the
largest layer; with the parameters gone too, the largest layer alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from gptcalc.analysis.memory.optimizer import Optimizer, Shape
from gptcalc.conventions import GradientType, Offload, ZeroStage
from gptcalc.dtypes import FP32
from gptcalc.errors import InputError


class Parameter(NamedTuple):
    """Equal tensors on one device."""

    name: str
    layer: str  # the matrix or table that it is or, being a bias, belongs to
    shape: Shape
    times: int
    bytes: int  # of one tensor, as the passes read it
    trained: bool = True
    ranks: int = 1  # data parallel ranks that would hold the same

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def width(self) -> int:
        """Bytes of one number of a trained tensor."""
        return self.bytes // self.elements


class States(NamedTuple):
    """Bytes on one device, and what it has in the host's memory."""

    weights: int
    gradients: int
    master: int
    moments: int
    gathered_weights: int = 0  # of the weights: the largest layer, whole for a while
    gathered_gradients: int = 0
    host: int = 0

    @property
    def optimizer(self) -> int:
        return self.master + self.moments


class Plan(NamedTuple):
    """How a model is updated: the optimiser, and where its states lie."""

    optimizer: Optimizer
    zero: ZeroStage = 0
    offload: Offload = "none"
    gradients: GradientType | None = None

    def checked(self) -> Plan:
        if self.offload == "parameters" and self.zero < 3:
            problem = "--offload parameters: only stage 3 takes weights off the device"
            raise InputError(problem, "give --zero 3", "usage")
        return self


def states(parameters: Sequence[Parameter], plan: Plan) -> States:
    """What one device keeps of its parameters between steps, and of the largest layer while it is at work."""
    trained = [p for p in parameters if p.trained]
    weights = _whole((p, p.bytes) for p in parameters)
    gradients = _whole((p, p.elements * plan.optimizer.gradient_bytes(p.width, plan.gradients)) for p in trained)
    master = _whole((p, p.elements * plan.optimizer.master_bytes(p.width)) for p in trained)
    moments = _whole((p, plan.optimizer.state(p.shape, p.width)) for p in trained)
    zero = plan.zero
    kept = States(
        weights=_share(weights) if zero == 3 else sum(weights.values()),
        gradients=_share(gradients) if zero >= 2 else sum(gradients.values()),
        master=_share(master) if zero >= 1 else sum(master.values()),
        moments=_share(moments) if zero >= 1 else sum(moments.values()),
    )
    return _at_work(_offloaded(kept, plan), parameters, plan)


def _whole(sizes: Iterable[tuple[Parameter, int]]) -> dict[int, int]:
    """Bytes by the number of ranks that would hold the same."""
    total: dict[int, int] = {}
    for parameter, size in sizes:
        total[parameter.ranks] = total.get(parameter.ranks, 0) + parameter.times * size
    return total


def _share(total: dict[int, int]) -> int:
    """One rank's part, rounded up."""
    return sum(-(-size // ranks) for ranks, size in total.items())


def _offloaded(kept: States, plan: Plan) -> States:
    """What goes to the host: master weights and moments; from stage 2 on the gradients; the weights where asked."""
    if plan.offload == "none":
        return kept
    gone = kept._replace(master=0, moments=0)
    if plan.zero >= 2:
        gone = gone._replace(gradients=0)
    if plan.offload == "parameters":
        gone = gone._replace(weights=0)
    return gone._replace(host=sum(kept) - sum(gone))


def _at_work(kept: States, parameters: Sequence[Parameter], plan: Plan) -> States:
    """With what is whole only for a while: 16-bit gradients in stage 2, the largest layer in stage 3."""
    if plan.zero == 2 and plan.offload == "none":
        return kept._replace(gradients=kept.gradients + _narrow_gradients(parameters, plan))
    if plan.zero < 3:
        return kept
    divided = [p for p in parameters if p.ranks > 1 or plan.offload == "parameters"]
    weights = largest_layer((p, p.bytes) for p in divided)
    gradients = largest_layer((p, p.bytes) for p in divided if p.trained)
    return kept._replace(
        weights=kept.weights + weights,
        gradients=kept.gradients + gradients,
        gathered_weights=weights,
        gathered_gradients=gradients,
    )


def _narrow_gradients(parameters: Sequence[Parameter], plan: Plan) -> int:
    """Gradients as the backward pass makes them, where they are kept in a wider type and divided."""
    return sum(
        p.times * p.bytes
        for p in parameters
        if p.trained and p.ranks > 1 and p.width < plan.optimizer.gradient_bytes(p.width, plan.gradients)
    )


def largest_layer(sizes: Iterable[tuple[Parameter, int]]) -> int:
    """The largest matrix or table with its bias."""
    widest: dict[str, dict[str, int]] = {}
    for parameter, size in sizes:
        layer = widest.setdefault(parameter.layer, {})
        layer[parameter.name] = max(layer.get(parameter.name, 0), size)
    return max((sum(layer.values()) for layer in widest.values()), default=0)


#: DeepSpeed plans half as much again of the host's memory (additional_buffer_factor)
HOST_BUFFERS = Fraction(3, 2)


def host_planned(offloaded: int, params: int, largest: int, processes: int, zero_init: bool) -> int:
    """DeepSpeed's estimate of one node's memory: what is offloaded there or, if more, what it takes to build the model.

    Every process builds the whole model in fp32 first; with zero.Init (stage 3 only) it builds layer by layer.
    """
    build = FP32.block_bytes * processes * (largest if zero_init else params)
    needed = offloaded if zero_init and offloaded else max(build, offloaded)
    return int(needed * HOST_BUFFERS)
