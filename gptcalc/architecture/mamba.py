"""Selective state spaces: a state that decays and takes in at rates that the input decides."""

from typing import Annotated, Literal, TypeAlias

from gptcalc.architecture.base import Chunk, Heads, Multiple, Narrow, Positive, Size, Width
from gptcalc.architecture.norms import LikeNorm, Norm
from gptcalc.architecture.sublayer import Sublayer

MambaSite: TypeAlias = Literal["in", "conv", "out"]


class Mamba(Sublayer, tag_field="sublayer", tag="mamba", frozen=True, kw_only=True):
    """Mamba (arXiv:2312.00752): d_inner channels, each with a state of d_state numbers.

    With x convolved and through SiLU: h ← e^{−Δ·e^A} ⊙ h + Δ·x·B, y = h·C + D·x, times SiLU(z). Δ, through a
    bottleneck of dt_rank, B and C are projections of x; with several heads each head has its own.
    """

    d_inner: Annotated[Size, Multiple("n_heads", 3)]  # channels inside
    d_state: Narrow  # numbers of a channel's state
    dt_rank: Narrow  # channels of the bottleneck of Δ
    kernel: Width  # tokens that the convolution sees
    n_heads: Heads = 1  # Zamba: x is projected head by head
    inner_norm: LikeNorm[Norm | None] = None  # of Δ's bottleneck, B and C (Jamba; without weights Falcon Mamba)
    bias: tuple[MambaSite, ...] = ("conv",)  # which parts have a bias


class Mamba2(Sublayer, tag_field="sublayer", tag="mamba2", frozen=True, kw_only=True):
    """Mamba-2 (arXiv:2405.21060): heads of d_head channels, each with a state d_state × d_head and one decay.

    With x, B and C convolved and through SiLU: S ← e^{−Δ·e^A}·S + B ⊗ Δ·x, y = Sᵀ·C + D·x, Δ = softplus(dt + b).
    The heads of a group share B and C. The output is gated by SiLU(z), and normed group by group.
    """

    n_heads: Annotated[Size, Multiple("n_groups")]  # heads
    d_head: Narrow  # channels of a head
    d_state: Narrow  # rows of a head's state
    kernel: Width  # tokens that the convolution sees
    n_groups: Heads = 1  # groups of heads that share B and C
    bias: tuple[MambaSite, ...] = ("conv",)  # which parts have a bias
    out_norm: LikeNorm[Norm | None] = None
    gate_first: bool = True  # the norm is that of the gated output; else the normed output is gated
    dt_min: float = 0.0  # least Δ
    dt_max: Positive | None = None  # largest Δ; default none
    scales: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0)  # factors of z, x, B, C, dt
    chunk: Chunk = 256  # tokens that the chunked form computes side by side

    @property
    def d_inner(self) -> int:
        """Channels of x and z."""
        return self.n_heads * self.d_head

    @property
    def d_shared(self) -> int:
        """Channels of B, and of C."""
        return self.n_groups * self.d_state
