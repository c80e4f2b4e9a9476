"""A convolution over what the tokens entered as (DeBERTa-v2). ị: its input channels."""

from __future__ import annotations

from gptcalc.architecture import EmbeddingConvolution
from gptcalc.equations.language import Index
from gptcalc.equations.lines import Lines
from gptcalc.equations.symbols import Symbols


def scope(m: EmbeddingConvolution, d: Index, symbols: Symbols) -> dict[str, Index]:
    """What the index letters run over."""
    return {"i": d, "ị": d, "κ": symbols.index("kernel", m.kernel, "channels", m.section)}


def embedding_convolution(lines: Lines, m: EmbeddingConvolution) -> None:
    """x_0[t,i] → y[t,i]."""
    lines.pointwise(f"x_E[t,κ,ị] = x_0[t − {m.kernel // 2} + κ,ị]", saved=2)
    lines.sum("y[t,i] = Σ_{κ,ị} x_E[t,κ,ị]·W_E[ị,κ,i] + b_E[i]", saved=2, W_E="conv", b_E="conv.bias")
    if m.function != "none":
        lines.pointwise(f"y[t,i] = {m.function}(y[t,i])")
