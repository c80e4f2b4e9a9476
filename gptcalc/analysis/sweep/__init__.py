"""Grids of what-ifs: every combination of keys and lengths, exactly, without an analysis for each.

What a key changes decides how it is swept. A key that is nothing but a size in the equations (`d_ff`, `v`, how often
layers stand) is *free*: figures are polynomials in it, collected once and evaluated for thousands of points at a time
(`bulk`). Any other key (heads, whose number decides what divides; windows; words) is *bound*: each combination of those
is built and collected by itself. Which is which is found out, not listed (`space`).
"""
