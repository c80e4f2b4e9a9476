"""Attention residuals (arXiv:2603.15031): what a sublayer reads is a mixture of the sums that the stream has been.

Sums that are set aside are Z, by ž; ẓ runs over them and the stream, ỵ over the inputs of attention that reads three.
"""

from __future__ import annotations

from gptcalc.architecture import AttentionResiduals, Norm
from gptcalc.equations.conditions import Condition, Wanted
from gptcalc.equations.language import Index, Lines, Mark, root
from gptcalc.equations.norms import norm_line
from gptcalc.equations.symbols import Symbols


def scope(sums: int, inputs: int = 1) -> dict[str, Index]:
    """What the letters run over where so many sums are mixed, for so many inputs."""
    letters = {"ẓ": Symbols.derived(str(sums), sums, "streams")}
    return letters if inputs == 1 else {**letters, "ỵ": Symbols.derived(str(inputs), inputs, "streams")}


def mixture(lines: Lines, residuals: AttentionResiduals, key: str = "sums.", wanted: bool = False) -> None:
    """x_Z[t,i], or x_Z[t,ỵ,i] for several inputs: the sums, each as much as its product with the query says."""
    condition: Condition | None = Wanted() if wanted else None
    sums, d = lines.scope["ẓ"].size, lines.scope["i"]
    each = "ỵ," if "ỵ" in lines.scope else ""
    here, product = f"t,{each}", f"ζ_Z[t,ẓ,{each}".rstrip(",") + "]"
    norm: Norm = residuals.norm
    text = f"n_Z[t,ẓ,i] = {{Z[t,ẓ,i] if ẓ < {sums - 1}; x[t,i] otherwise}}"
    lines.pointwise(text, condition, saved=2)
    norm_line(lines, norm, "n_Z[t,ẓ,i]", "n_Z[t,ẓ,i]", "i", f"{key}norm", name="_Z", saved=2, condition=condition)
    lines.sum(f"{product} = Σ_i n_Z[t,ẓ,i]·q_Z[i{each and ',ỵ'}]", condition, q_Z=Mark(f"{key}query"))
    lines.pointwise(f"α_Z[{here}ẓ] = softmax_ẓ({product}/{root(d)})", condition, saved=2)
    lines.sum(f"x_Z[{here}i] = Σ_ẓ α_Z[{here}ẓ]·n_Z[t,ẓ,i]", condition, saved=2)


def set_aside(lines: Lines, before: int) -> None:
    """The stream becomes one more sum, behind so many."""
    lines.scope["ž"] = Symbols.derived(str(before + 1), before + 1, "streams")
    earlier = f"{{Z[t,ž,i] if ž < {before}; x[t,i] otherwise}}" if before else "x[t,i]"
    lines.pointwise(f"Z[t,ž,i] = {earlier}", saved=2)
