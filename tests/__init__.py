"""Tests, a folder for each room; `data`, `golden` and `hostile` hold what they are held against."""

from pathlib import Path

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
