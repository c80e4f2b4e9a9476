"""Attention residuals (arXiv:2603.15031): what a sublayer reads is a mixture of the sums that the stream has been.

Sums that are set aside are Z, by ž; ẓ runs over them and the stream, ỵ over the inputs of attention that reads three.
v_Z are the sums that are mixed where that is not what is compared, n_Z.
"""

from __future__ import annotations

from gptcalc.architecture import AttentionResiduals, Norm
from gptcalc.equations.conditions import Condition, Wanted
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, root
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
    mixed = "n_Z[t,ẓ,i]" if residuals.values == "normed" else "v_Z[t,ẓ,i]"
    those = f"{{Z[t,ẓ,i] if ẓ < {sums - 1}; x[t,i] otherwise}}" if sums > 1 else "x[t,i]"
    lines.pointwise(f"{mixed} = {those}", condition, saved=2)
    norm_line(lines, norm, "n_Z[t,ẓ,i]", mixed, "i", f"{key}norm", name="_Z", saved=2, condition=condition)
    compared = f"{product} = Σ_i n_Z[t,ẓ,i]·q_Z[i{each and ',ỵ'}]"
    share = f"α_Z[{here}ẓ] = softmax_ẓ({_scaled(lines, residuals, product, d)})"
    mixture = f"x_Z[{here}i] = Σ_ẓ α_Z[{here}ẓ]·{mixed}"
    if sums == 1:  # its share is 1, whatever the query says, and nothing is multiplied
        lines.pointwise(compared, condition, q_Z=Mark(f"{key}query"))
        lines.pointwise(share, condition)
        lines.pointwise(mixture, condition, saved=2)
        return
    lines.sum(compared, condition, q_Z=Mark(f"{key}query"))
    lines.pointwise(share, condition, saved=2)
    lines.sum(mixture, condition, saved=2)


def _scaled(lines: Lines, residuals: AttentionResiduals, product: str, d: Index) -> str:
    """A score: the product with the query, times a factor."""
    if residuals.scale is None:
        return f"{product}/{root(d)}"
    return f"{lines.factor('scale_ζ', residuals.scale)}{product}"


def set_aside(lines: Lines, before: int) -> None:
    """The stream becomes one more sum, behind so many."""
    lines.scope["ž"] = Symbols.derived(str(before + 1), before + 1, "streams")
    earlier = f"{{Z[t,ž,i] if ž < {before}; x[t,i] otherwise}}" if before else "x[t,i]"
    lines.pointwise(f"Z[t,ž,i] = {earlier}", saved=2)
