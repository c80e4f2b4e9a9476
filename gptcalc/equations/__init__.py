"""What an architecture means: its forward pass as sums over named indices."""
