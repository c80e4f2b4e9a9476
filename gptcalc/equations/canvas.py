"""How the tokens of a block enter that is denoised at once: none do in a prompt, so that nothing of it is computed.

Letters: ç the block's tokens.
"""

from __future__ import annotations

from msgspec.structs import replace

from gptcalc.architecture import Canvas, Embedding
from gptcalc.equations.embedding import table
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines
from gptcalc.equations.mlp import Activation, Names, feed_forward
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols

#: of its feed-forward layer
OWN = Names("G_cvs", "U_cvs", "H_cvs", "W_Gcvs", "W_Ucvs", "W_Dcvs")


def tokens(symbols: Symbols) -> dict[str, Index]:
    """The block's, of which a prompt has none."""
    return {"ç": symbols.derived("0", 0, "canvas")}


def scope(c: Canvas, symbols: Symbols) -> dict[str, Index]:
    return {**tokens(symbols), "f": symbols.index("d_ff", c.d_ff, "channels", "canvas", "tp")}


def enter(lines: Lines, c: Canvas, e: Embedding) -> None:
    """x_cvs[ç,i]: what layers read of the block, a prompt's x[t,i] beside it."""
    scale = lines.factor("scale_x", e.scale)
    lines.pointwise(f"x_cvs[ç,i] = {scale}E[u,i], u = canvas(ç)", E=table(e, elsewhere=True))
    lines.pointwise("p_cvs[ç,u] = guessed(ç,u)")
    lines.sum("e_cvs[ç,i] = Σ_u p_cvs[ç,u]·E[u,i]", E=table(e, elsewhere=True))
    if scale:
        lines.pointwise(f"e_cvs[ç,i] = {scale}e_cvs[ç,i]")
    norm_line(lines.under("norm"), c.norm, "n_cvs[ç,i]", "e_cvs[ç,i]", "i", "norm", name="_cvs")
    keys = {"gate": "gate", "up": "up"}
    feed_forward(lines, "f", "n_cvs[ç,i]", Activation(c.activation), (), keys, names=OWN, token="ç", kept=False)
    lines.sum("y_cvs[ç,i] = Σ_f H_cvs[ç,f]·W_Dcvs[f,i]", W_Dcvs=Mark("down", "down"))
    norm_line(
        lines, replace(c.norm, weight=False, bias=False), "x_cvs[ç,i]", "x_cvs[ç,i] + y_cvs[ç,i]", "i", "out_norm"
    )
