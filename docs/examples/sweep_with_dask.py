"""A grid that outgrows one process: Dask runs its parts, each writes a Parquet file, all of them are one data set.

    python docs/examples/sweep_with_dask.py FOLDER [PARTS]

Any batch system does the same with one command a part:

    gptcalc sweep llama-3-8b --set … --part 3/100 -o FOLDER/part-003.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import dask

from gptcalc import cli

GRID = (
    "sweep", "llama-3-8b", "--set", "n_layers=16..64:1", "--set", "d_ff=8K..32K:1K", "--set", "n_kv_heads=1,2,4,8",
    "--context", "8K,32K", "--columns", "n_layers,d_ff,n_kv_heads,context,total,kv_bytes,memory,decode_flops",
)  # fmt: skip


@dask.delayed
def part(number: int, parts: int, folder: Path) -> Path:
    """One part of the grid as a file."""
    file = folder / f"part-{number:03}.parquet"
    if cli.run([*GRID, "--part", f"{number}/{parts}", "-o", str(file)]):
        raise RuntimeError(f"part {number} of {parts}")
    return file


def main(folder: Path, parts: int = 4) -> list[Path]:
    """All parts of the grid, as many at a time as there are cores; their files."""
    folder.mkdir(parents=True, exist_ok=True)
    return list(dask.compute(*(part(number, parts, folder) for number in range(1, parts + 1)), scheduler="processes"))


if __name__ == "__main__":
    print(*main(Path(sys.argv[1]), *map(int, sys.argv[2:3])), sep="\n")
