"""Where an architecture comes from."""
