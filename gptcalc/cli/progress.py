"""Progress of long work: a bar on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count


def each(items: Sequence[str]) -> Iterator[str]:
    """The items one by one; where there are several, a bar names the one that is at work."""
    with bar(len(items)) as step:
        for item in items:
            step(item)
            yield item


@contextmanager
def bar(steps: int) -> Iterator[Callable[[str], None]]:
    """A function to call at the beginning of every step, with a word on what it is."""
    if steps < 2 or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=steps)
        done = count()
        yield lambda word: progress.update(task, completed=next(done), description=word)
