"""HGRN's recurrence: one number a channel, which decays and takes in what it lost."""

from gptcalc.architecture.base import Inner, Kernel
from gptcalc.architecture.norms import LikeNorm, Norm
from gptcalc.architecture.sublayer import Sublayer


class HierarchicalRecurrence(Sublayer, tag_field="sublayer", tag="hierarchical_recurrence", frozen=True, kw_only=True):
    """The gated recurrence of HGRN (arXiv:2311.04823) in real numbers: h ← e^g ⊙ h + (1 − e^g) ⊙ SiLU(v), e^g = σ(f), v
    and f projections of the input; h is normed, multiplied with SiLU of a third projection, and projected.

    bounds: at least so much is left as all layers learn together, each more than the one before, e^g ← λ + (1 − λ)·e^g
    with λ the sum over layers 1 … l of a softmax over all.
    """

    d_rnn: Inner  # channels of the recurrence
    kernel: Kernel | None = None  # causal convolutions of values and decays over so many tokens
    bounds: bool = False  # decays have bounds that all layers learn together
    out_norm: LikeNorm[Norm | None] = None  # of what is read, in front of the gate

    @property
    def bound_channels(self) -> tuple[int, ...]:
        """What has a bound of its decay; empty where nothing has."""
        return (self.d_rnn,) if self.bounds else ()
