"""Which architectures meet a budget: free keys with ranges, rules of taste, and an exact search for the best of them.

`taste` says over what is searched, `search` finds the best points off the polynomials of a sweep by branch and bound,
`run` puts both together and confirms what was found by the ordinary analyses.
"""
