"""Other mixers whose memory of the past does not grow."""

from typing import Annotated, Literal

from gptcalc.architecture.base import Chunk, Heads, Kernel, Multiple, Narrow, Positive, Size
from gptcalc.architecture.norms import LikeNorm, Norm
from gptcalc.architecture.sublayer import Sublayer


class ShortConvolution(Sublayer, tag_field="sublayer", tag="short_convolution", frozen=True, kw_only=True):
    """A gated causal convolution, channel by channel (LFM2, arXiv:2511.23404): C ⊙ conv(B ⊙ x), then projected, where
    B, C and x are projections of the input."""

    kernel: Kernel  # tokens that the convolution sees
    bias: bool = False  # of projections and convolution


class GatedRecurrence(Sublayer, tag_field="sublayer", tag="gated_recurrence", frozen=True, kw_only=True):
    """Griffin's recurrent block (arXiv:2402.19427): a gated linear unit whose value is convolved and then passes the
    RG-LRU, h ← a ⊙ h + √(1 − a²) ⊙ (i ⊙ x), a = e^{−8·r·softplus(Λ)}; the gates r and i are σ of projections within
    n_heads blocks of channels."""

    d_rnn: Annotated[Size, Multiple("n_heads", 3)]  # channels of the recurrence
    n_heads: Heads  # blocks of channels that the gates are made in
    kernel: Kernel  # tokens that the convolution sees
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "gelu_tanh"  # of the unit's gate


class MatrixLSTM(Sublayer, tag_field="sublayer", tag="matrix_lstm", frozen=True, kw_only=True):
    """mLSTM of xLSTM (arXiv:2405.04517; as in xLSTM 7B, arXiv:2503.13427): exponential input and forget gates, kept in
    range by a running maximum m; S ← e^{f+m−m′}·S + e^{i−m′}·k ⊗ v, n likewise of k, h = Sᵀq / max(|nᵀq|, e^{−m′})."""

    n_heads: Heads  # heads
    d_k: Narrow  # channels of a head's queries and keys
    d_v: Narrow  # channels of a head's values
    gate_softcap: Positive = 15.0  # the gates' logits x become softcap·tanh(x / softcap)
    out_norm: LikeNorm[Norm] = Norm(kind="layernorm", bias=False)  # of each head's output
    chunk: Chunk = 64  # tokens that the chunked form computes side by side

    @property
    def k_width(self) -> int:
        """Channels of all keys, and of all queries."""
        return self.n_heads * self.d_k

    @property
    def v_width(self) -> int:
        """Channels of all values."""
        return self.n_heads * self.d_v
