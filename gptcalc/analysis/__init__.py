"""What an architecture costs: folds over the equations."""
