"""A model's sums with its sizes, lengths and switches left open, as data that a page evaluates.

What a line counts is a product: of what its indices run over, and of how many combinations of tokens its condition
lets occur. The first are terms in the keys that a reader may move (`sizes`), the second piecewise polynomials in the
length (`lengths`). Both are found by building the model again with other values, and hold for any. Lines themselves
change with switches alone (`switches`), so each combination of these is written out once (`written`).
"""
