"""What leaves the last layer: logits over the vocabulary, labels, one vector for the whole text."""

from __future__ import annotations

from typing import Any

from gptcalc.architecture import Dense, Embedding, Head, Pooler
from gptcalc.equations import chain, embedding
from gptcalc.equations.conditions import Wanted
from gptcalc.equations.language import Index, Mark
from gptcalc.equations.lines import Lines, plus
from gptcalc.equations.norms import factor, norm_line
from gptcalc.equations.symbols import Symbols


def scope(head: Head, d: Index, width: Index, symbols: Symbols) -> dict[str, Index]:
    """ï: what the output matrix reads, where that isn't the stream itself; u: its own rows; ψ: the pooler's channels;
    ℓ: its labels."""
    letters = {"ï": width, **chain.scope(head, d, symbols)}
    if head.dense is not None and head.dense.d != width.size:
        letters["ï"] = d if head.dense.d == d.size else symbols.index("d_out", head.dense.d, "channels")
    if head.rows is not None:
        letters["u"] = symbols.index("v_out", head.rows, "vocabulary", shard="vocab")
    pooler = head.pooler
    if pooler is not None and pooler.dense is not None:
        own = pooler.dense.d
        letters["ψ"] = d if own == d.size else symbols.index("d_pooler", own, "channels")
    if pooler is not None and pooler.labels:
        letters["ℓ"] = symbols.index("n_labels", pooler.labels, "channels")
    return letters


def logits(lines: Lines, head: Head, e: Embedding, narrow: bool, none: bool = False) -> None:
    """n[t,i] → logits[t,u], prob[t,u]. `narrow`: the token table's rows are narrower than the stream; `none`: no token
    of this pass has any."""
    wanted = Wanted(none)
    source, letter = "n[t,i]", "i"
    if head.dense is not None:
        source, letter = "n_O[t,ï]", "ï"
        dense(lines, head.dense, source, "n[t,i]", "W_H", "head.dense", wanted)
    elif narrow:
        source, letter = "n_O[t,ï]", "ï"
        lines.sum("n_O[t,ï] = Σ_i n[t,i]·W_H[i,ï]", wanted, 2, "other", W_H="head.projection")
    bias = plus("b_voc[u]", head.bias)
    if head.tying:
        table = embedding.table(e, elsewhere=True)  # the same weight on a second line
        text = f"logits[t,u] = Σ_{letter} {source}·E[u,{letter}]{bias}"
        lines.sum(text, wanted, saved=4, E=table, b_voc="head.bias")
    else:
        matrix = Mark("target.head.weight" if head.borrowed else "head.weight", "logits", borrowed=head.borrowed)
        text = f"logits[t,u] = Σ_{letter} {source}·W_voc[{letter},u]{bias}"
        lines.sum(text, wanted, saved=4, W_voc=matrix, b_voc="head.bias")
    if head.factors is not None:
        text = f"logits[t,u] = {factor(lines, head.factors, 's_voc', 'u')}·logits[t,u]"
        lines.pointwise(text, wanted, saved=4, s_voc="head.scale")
    if head.scale != 1.0:
        lines.pointwise(f"logits[t,u] = {lines.factor('scale_u', head.scale)}logits[t,u]", wanted)
    if head.softcap is not None:
        cap = lines.number("softcap_u", head.softcap)
        lines.pointwise(f"logits[t,u] = {cap}·tanh(logits[t,u]/{cap})", wanted)
    if head.markov is not None:
        chain.markov(lines, head.markov)
    if head.gru is not None:
        chain.gru(lines, head.gru, e)
    lines.pointwise("prob[t,u] = softmax_u(logits[t,u])", wanted)


def pooled(lines: Lines, pooler: Pooler) -> None:
    """n[t,i] → c_P or labels: what is read off one token or each."""
    source, at = "n[t,i]", "t,"
    if pooler.token != "each":
        source, at = "n_P[i]", ""
        lines.pointwise(f"n_P[i] = n[{'0' if pooler.token == 'first' else 'S − 1'},i]", saved=2)
    letter = "i"
    if pooler.dense is not None:
        target, letter = f"c_P[{at}ψ]", "ψ"
        dense(lines, pooler.dense, target, source, "W_P", "pooler.dense")
        source = target
    if pooler.labels:
        text = f"labels[{at}ℓ] = Σ_{letter} {source}·W_L[{letter},ℓ]{plus('b_L[ℓ]', pooler.bias)}"
        lines.sum(text, saved=4, W_L=Mark("pooler.labels", "logits"), b_L="pooler.labels.bias")


def dense(
    lines: Lines, d: Dense, target: str, source: str, matrix: str, key: str, condition: Wanted | None = None
) -> None:
    """target = norm(f(source·W + b))."""
    into, out = _last(source), _last(target)
    name = matrix[1:]
    text = f"{target} = Σ_{into} {source}·{matrix}[{into},{out}]{plus(f'b{name}[{out}]', d.bias)}"
    marks: dict[str, Any] = {matrix: key, f"b{name}": f"{key}.bias"}
    lines.sum(text, condition, 2, **marks)
    if d.function != "none":
        lines.pointwise(f"{target} = {d.function}({target})", condition, saved=2)
    if d.norm is not None:
        norm_line(lines.under("norm"), d.norm, target, target, out, f"{key}.norm", "", name, 2, condition)


def _last(reference: str) -> str:
    """The last index letter of a symbol."""
    return reference[reference.index("[") + 1 : -1].split(",")[-1]
