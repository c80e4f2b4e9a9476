"""The command `gptcalc`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and leave with its exit status."""
    # Imports make no garbage: looking for it would take a fifth of the start. A run is short, and ends the process.
    gc.disable()
    try:
        _import_msgspec()
        from gptcalc.cli import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    except Exception as error:
        if "GPTCALC_DEBUG" in os.environ:
            raise
        problem = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
        with suppress(Exception):
            print(
                f"gptcalc: internal error: {' '.join(problem.split())[:500]}; please report it "
                "(GPTCALC_DEBUG=1 shows where it is)",
                file=sys.stderr,
            )
        status = 2
    # everything is written and flushed by now; taking the modules apart would only cost the user time
    os._exit(status)


def _import_msgspec() -> None:
    """msgspec takes typing's own names where typing_extensions can't be had, which would cost as much as msgspec."""
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]
    modules.setdefault("typing_extensions", None)
    import msgspec  # noqa: F401

    if modules["typing_extensions"] is None:
        del modules["typing_extensions"]


if __name__ == "__main__":
    main()
