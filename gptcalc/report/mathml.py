"""MathML: lines as formulas, and a page of a model's sums that any browser shows, without a script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from gptcalc import units
from gptcalc.report.explain import Explanation, LineRow
from gptcalc.report.explained import Piece, heading, pieces, reference, sums, title
from gptcalc.report.notation import Notation, mantissa, marked

#: what stands above a letter that Unicode has no character for with its mark
ACCENTS = {"\u0302": "^"}


class MathML(Notation):
    """Presentation MathML Core (https://www.w3.org/TR/mathml-core/)."""

    def row(self, parts: Iterable[str]) -> str:
        return f"<mrow>{''.join(parts)}</mrow>"

    def listed(self, parts: Iterable[str]) -> str:
        found = list(parts)
        if len(found) < 2:
            return "".join(found)
        return self.row([found[0], *(part for other in found[1:] for part in ("<mo>,</mo>", other))])

    def gap(self) -> str:
        return '<mo>,</mo><mspace width="1em"/>'

    def number(self, text: str) -> str:
        digits, exponent = mantissa(text)
        if exponent is None:
            return f"<mn>{text}</mn>"
        power = self.power("<mn>10</mn>", f"<mn>{exponent}</mn>".replace("-", "−"))
        return power if digits == "1" else self.row([f"<mn>{digits}</mn>", self.sign("·"), power])

    def letter(self, name: str) -> str:
        base, mark = marked(name)
        if mark in ACCENTS:
            return f'<mover accent="true"><mi>{base}</mi><mo>{ACCENTS[mark]}</mo></mover>'
        return f"<mi>{escape(name)}</mi>"

    def words(self, name: str) -> str:
        return f"<mtext>{escape(name)}</mtext>"

    def scripts(self, base: str, below: str, above: str) -> str:
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{above}</msup>" if above else base

    def sign(self, sign: str) -> str:
        return f"<mo>{escape(sign)}</mo>"

    def function(self, name: str, over: str) -> str:
        word = f"<mi>{escape(name)}</mi>"
        return self.scripts(word, over, "")

    def sum(self, over: str) -> str:
        return f"<munder><mo>∑</mo>{over}</munder>" if over else "<mo>∑</mo>"

    def brackets(self, inner: str) -> str:
        return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"

    def floor(self, inner: str) -> str:
        return f"<mrow><mo>⌊</mo>{inner}<mo>⌋</mo></mrow>"

    def root(self, inner: str) -> str:
        return f"<msqrt>{inner}</msqrt>"

    def fraction(self, above: str, below: str) -> str:
        return f"<mfrac>{above}{below}</mfrac>"

    def power(self, base: str, exponent: str) -> str:
        return f"<msup>{base}{exponent}</msup>"

    def cases(self, pieces: Sequence[tuple[str, str]], otherwise: str) -> str:
        rows = [(value, f"<mtext>if&#160;</mtext>{when}") for value, when in pieces]
        rows.append((otherwise, "<mtext>otherwise</mtext>"))
        cells = "".join(f"<mtr><mtd>{value}</mtd><mtd><mrow>{when}</mrow></mtd></mtr>" for value, when in rows)
        return f'<mrow><mo fence="true" stretchy="true">{{</mo><mtable columnalign="left">{cells}</mtable></mrow>'


DRAW = MathML()
STYLE = """
:root { color-scheme: light dark; font: 16px/1.4 system-ui, sans-serif; }
body { margin: 1rem auto; max-width: 80rem; padding: 0 1rem; }
section { overflow-x: auto; }
table { border-collapse: collapse; }
td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: baseline; }
th { font-weight: 600; opacity: .7; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
"""


def document(found: Explanation) -> str:
    """A model's sums as a page: a table a stage, and every symbol."""
    stages = [(title(stage, "usual"), _table(parts)) for stage, parts in pieces(found.stages)]
    body = "".join(f"<section><h2>{escape(name)}</h2>{table}</section>" for name, table in stages)
    name = escape(found.model)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width"/><style>{STYLE}</style></head><body><main>'
        f"<h1>{name}</h1><p>{escape(heading(found))}. {escape(sums(found))}</p>{body}"
        f"<section><h2>Symbols</h2>{_legend(found)}</section></main></body></html>\n"
    )


def _table(parts: Sequence[Piece]) -> str:
    head = '<tr><th>equation</th><th class="n">parameters</th><th class="n">FLOPs</th></tr>'
    return f"<table>{head}{''.join(row for piece in parts for row in _rows(piece))}</table>"


def _rows(piece: Piece) -> Iterator[str]:
    if piece.like:
        yield _row(escape(reference(piece)), piece.params, piece.flops)
    for line in piece.without:
        yield _row(f"not: {formula(line)}", 0, 0)
    for line in piece.shown:
        yield _row(formula(line), line.params, line.flops)


def formula(line: LineRow) -> str:
    """A line as an element; what is cached, or runs in some passes of a loop, says so behind it."""
    remark = f" ({escape(line.remark)})" if line.remark else ""
    return math(DRAW.line(line.equation, line.condition)) + remark


def math(inner: str) -> str:
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>'


def _row(cell: str, *numbers: int) -> str:
    return (
        f"<tr><td>{cell}</td>"
        + "".join(f'<td class="n">{units.grouped(n) if n else ""}</td>' for n in numbers)
        + "</tr>"
    )


def _legend(found: Explanation) -> str:
    rows = []
    for s in found.legend:
        symbol = DRAW.function(s.symbol, "") if s.kind == "function" else DRAW.name(s.symbol)
        size = f"{escape(s.over)} = {units.grouped(s.size)}" if s.size is not None else ""
        defined = ", ".join(math(DRAW.line(text)) for text in s.definition)
        known = ", ".join((*s.keys, *(f"{value:g}" for value in s.values)))
        rows.append(
            f"<tr><td>{math(symbol)}</td><td>{escape(s.meaning)}</td><td>{size or defined or escape(known)}</td></tr>"
        )
    head = "<tr><th>symbol</th><th>meaning</th><th>runs over</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"
