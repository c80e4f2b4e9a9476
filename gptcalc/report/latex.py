"""LaTeX: lines as formulas, and a document of a model's sums that any LaTeX with amsmath sets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from gptcalc import units
from gptcalc.report.explain import Explanation, LineRow
from gptcalc.report.explained import Piece, heading, pieces, reference, sums, title
from gptcalc.report.notation import Notation, mantissa, marked

#: characters that a formula has, beside ASCII
CHARACTERS = {
    "−": "-", "·": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∈": r"\in ", "×": r"\times ", "∞": r"\infty ",
    "√": r"\surd ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "′": r"\prime ", "²": "^2",
    "³": "^3", "ˣ": "^x", "|": r"\mid ", "+=": r"\mathrel{+}=", "Σ": r"\Sigma ", "ℓ": r"\ell ", "–": r"\text{--}",
    "ϕ": r"\phi ", "φ": r"\varphi ", "ϰ": r"\varkappa ", "ϱ": r"\varrho ", "ϖ": r"\varpi ", "ϑ": r"\vartheta ",
    "ς": r"\varsigma ", "→": r"\to ",
}  # fmt: skip
#: Greek letters by their Unicode names; the others look like Latin ones
GREEK = frozenset(
    {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi"}
    | {"pi", "rho", "sigma", "tau", "upsilon", "chi", "psi", "omega"}
)
CAPITALS = frozenset({"Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"})
MARKS = {
    "\u0302": "hat",
    "\u0307": "dot",
    "\u0308": "ddot",
    "\u030c": "check",
    "\u0303": "tilde",
    "\u0301": "acute",
    "\u0300": "grave",
    "\u0304": "bar",
}
#: marks below, which only text has
BELOW = {"\u0323": "d", "\u0331": "b", "\u0327": "c", "\u0326": "c"}
UNDER = {"\u032e": "smile"}  # a sign under the letter, as there is no mark
KNOWN = ("exp", "ln", "cos", "sin", "tanh", "max", "min")
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


class Latex(Notation):
    def row(self, parts: Iterable[str]) -> str:
        return "".join(parts)

    def listed(self, parts: Iterable[str]) -> str:
        return ",".join(parts)

    def gap(self) -> str:
        return r",\quad "

    def number(self, text: str) -> str:
        digits, exponent = mantissa(text)
        if exponent is None:
            return character(digits) if digits == "∞" else digits
        return f"10^{{{exponent}}}" if digits == "1" else f"{digits}\\cdot 10^{{{exponent}}}"

    def letter(self, name: str) -> str:
        base, mark = marked(name)
        if len(name) > 1 and not mark:
            return f"\\mathrm{{{name}}}"
        if mark in BELOW:
            return f"\\text{{\\{BELOW[mark]}{{\\ensuremath{{{character(base)}}}}}}}"
        if mark in UNDER:
            return f"\\underset{{\\{UNDER[mark]}}}{{{character(base)}}}"
        return f"\\{MARKS[mark]}{{{character(base)}}}" if mark else character(base)

    def words(self, name: str) -> str:
        if name.isascii():
            return f"\\mathrm{{{name}}}"
        return "".join(map(self.letter, name))

    def scripts(self, base: str, below: str, above: str) -> str:
        return base + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")

    def sign(self, sign: str) -> str:
        return CHARACTERS.get(sign, sign)

    def function(self, name: str, over: str) -> str:
        if name == "σ":
            return r"\sigma "
        if name == "Σ":
            return r"\sum "
        word = f"\\{name}" if name in KNOWN else f"\\operatorname{{{name.replace('_', chr(92) + '_')}}}"
        return f"{word}_{{{over}}}" if over else word

    def sum(self, over: str) -> str:
        return f"\\sum_{{{over}}} "

    def brackets(self, inner: str) -> str:
        return f"\\left({inner}\\right)"

    def floor(self, inner: str) -> str:
        return f"\\left\\lfloor {inner}\\right\\rfloor "

    def root(self, inner: str) -> str:
        return f"\\sqrt{{{inner}}}"

    def fraction(self, above: str, below: str) -> str:
        return f"\\frac{{{above}}}{{{below}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{{{base}}}^{{{exponent}}}"

    def cases(self, pieces: Sequence[tuple[str, str]], otherwise: str) -> str:
        rows = [f"{value} & \\text{{if }} {when}" for value, when in pieces]
        return "\\begin{cases} " + r" \\ ".join([*rows, f"{otherwise} & \\text{{otherwise}}"]) + " \\end{cases}"


def character(sign: str) -> str:
    """One character of a formula. KeyError where LaTeX has no word for it that we know."""
    if sign in CHARACTERS or sign.isascii():
        return CHARACTERS.get(sign, sign)
    words = unicodedata.name(sign).split()
    if words[0] == "GREEK":
        name = "lambda" if words[-1] == "LAMDA" else words[-1].lower()
        if words[1] == "SMALL" and name in GREEK:
            return f"\\{name} "
        if words[1] == "CAPITAL":
            return f"\\{name.capitalize()} " if name.capitalize() in CAPITALS else name[0].upper()
    raise KeyError(sign)


def _is_known(sign: str) -> bool:
    """Whether there is a word for a character: a model may be called anything."""
    try:
        return bool(character(sign)) and sign.isprintable()
    except (KeyError, ValueError):
        return False


def plain(text: str) -> str:
    """Text outside of formulas: what is not ASCII is set as a small formula."""
    found = []
    for sign in unicodedata.normalize("NFC", text):
        base, mark = marked(sign)
        if not _is_known(base):
            found.append(f"\\texttt{{U+{ord(sign):04X}}}")
        elif sign.isascii():
            found.append(SPECIAL.get(sign, sign))
        elif mark in MARKS:
            found.append(f"\\ensuremath{{\\{MARKS[mark]}{{{character(base)}}}}}")
        elif mark in UNDER:
            found.append(f"\\ensuremath{{\\underset{{\\{UNDER[mark]}}}{{{character(base)}}}}}")
        elif mark:
            found.append(f"\\{BELOW[mark]}{{\\ensuremath{{{character(base)}}}}}" if mark in BELOW else base)
        else:
            found.append(f"\\ensuremath{{{character(sign)}}}")
    return "".join(found)


HEAD = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{amsmath,amssymb,longtable}
\usepackage[landscape,margin=12mm]{geometry}
\setlength{\parindent}{0pt}
\begin{document}
"""
DRAW = Latex()


def document(found: Explanation) -> str:
    """A model's sums as a document: a table a stage, and every symbol."""
    body = [f"\\section*{{{plain(found.model)}}}", plain(f"{heading(found)}. {sums(found)}")]
    for stage, parts in pieces(found.stages):
        body += [f"\\subsection*{{{plain(title(stage, 'usual'))}}}", _table(parts)]
    body += ["\\subsection*{Symbols}", _legend(found)]
    return HEAD + "\n".join(body) + "\n\\end{document}\n"


def _table(parts: Sequence[Piece]) -> str:
    rows = [r"equation & parameters & FLOPs \\ \hline \endhead", *(row for piece in parts for row in _rows(piece))]
    return "\\begin{longtable}[l]{@{}lrr@{}}\n" + "\n".join(rows) + "\n\\end{longtable}"


def _rows(piece: Piece) -> Iterator[str]:
    if piece.like:
        yield _row(plain(reference(piece)), piece.params, piece.flops)
    for line in piece.without:
        yield _row(f"not: $\\displaystyle {formula(line)}$", 0, 0)
    for line in piece.shown:
        yield _row(f"$\\displaystyle {formula(line)}$", line.params, line.flops)


def formula(line: LineRow) -> str:
    remark = f"\\quad\\text{{({plain(line.remark)})}}" if line.remark else ""
    return DRAW.line(line.equation, line.condition) + remark


def _row(cell: str, *numbers: int) -> str:
    return " & ".join([cell, *(units.grouped(n) if n else "" for n in numbers)]) + r" \\[2pt]"


def _legend(found: Explanation) -> str:
    rows = []
    for s in found.legend:
        symbol = DRAW.function(s.symbol, "") if s.kind == "function" else DRAW.name(s.symbol)
        size = f"{plain(s.over)} = {units.grouped(s.size)}" if s.size is not None else ""
        defined = ", ".join(f"${DRAW.line(text)}$" for text in s.definition)
        known = ", ".join((*s.keys, *(f"{value:g}" for value in s.values)))
        rows.append(f"${symbol}$ & {plain(s.meaning)} & {size or defined or plain(known)} \\\\")
    return "\\begin{longtable}[l]{@{}lp{80mm}l@{}}\n" + "\n".join(rows) + "\n\\end{longtable}"
