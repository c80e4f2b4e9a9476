"""The witness: a NumPy transformer that knows nothing of the equations."""
