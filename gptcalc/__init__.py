"""What a transformer costs before anyone runs it."""
