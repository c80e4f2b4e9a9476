"""gptcalc sweep"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from gptcalc.cli.answer import Answer, Format, show
from gptcalc.cli.options import GridColumns, Model, Sort, Where
from gptcalc.conventions import DType, KVDType, MlaOption, StateDType
from gptcalc.errors import InputError, printable
from gptcalc.options import Option

if TYPE_CHECKING:
    from gptcalc.analysis.sweep.run import Sweep

RANGE = re.compile(r"[\d.]+[kKmMgG]?(\.\.[\d.]+[kKmMgG]?((\.\.|:)[\d.]+[kKmMgG]?)?)?")
#: where the columns of a grid are told
COLUMNS = "gptcalc columns sweep lists them"
#: rows of a table that a person reads
MOST_SHOWN = 10_000


def part(value: Any) -> tuple[int, int]:
    """3/100: the third of a hundred."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(value))
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--part: {printable(str(value))!r} is no part of a whole", "write 3/100", "usage")
    return int(match[1]), int(match[2])


def command(
    model: Model,
    settings: Annotated[
        list[str],
        Option(
            "A key of the preset and its values: n_kv_heads=1,2,4,8, n_layers=16..64:16, d_ff=1K..32K (doubling); "
            "with=as-is,mla,gqa:4 takes what --with does; may be repeated.",
            "KEY=VALUES",
            name="--set",
        ),
    ] = [],  # noqa: B006
    context: Annotated[
        str | None,
        Option("Lengths: 8K,32K or 1K..1M (doubling). Default: the model's c.", "LENGTHS", ("--max-model-len",)),
    ] = None,
    batch: Annotated[str, Option("Sequences: 1,8,64.", "NUMBERS", ("--batch-size",))] = "1",
    dtype: DType = "bf16",
    kv_dtype: KVDType = "bf16",
    state_dtype: StateDType = "fp32",
    mla: MlaOption = None,
    columns: GridColumns = None,
    where: Where = [],  # noqa: B006
    sort: Sort = None,
    top: Annotated[int | None, Option("The first so many rows.")] = None,
    pareto: Annotated[
        str | None,
        Option("Rows that none is better than in all of these; the least is best, of -KEY the most.", "KEY,KEY…"),
    ] = None,
    plot: Annotated[
        str | None,
        Option(
            "Columns of the picture that -o FILE.svg or FILE.png draws, one against another, coloured by a third. "
            "Default: the first key, the first figure, the second key.",
            "X,Y,BY",
        ),
    ] = None,
    points: Annotated[
        str | None,
        Option("Points that a file lists, a column a key, context and batch among them.", "FILE.parquet|FILE.csv"),
    ] = None,
    jobs: Annotated[int, Option("Processes.")] = 1,
    of: Annotated[
        str | None, Option("One of several parts that together are the whole: 3/100.", "PART", name="--part")
    ] = None,
) -> Answer:
    """Every combination of values, exactly: parameters, cache, FLOPs; millions of points a second.

    gptcalc sweep llama-3-8b --set n_kv_heads=1,2,4,8 --context 8K,128K
    gptcalc sweep gpt2 --set with=as-is,gqa:4,mla --set n_layers=12,24
    gptcalc sweep gpt2 --set n_layers=6..48:6 --set d=768,1024 --where 'total < 1e9' --sort -total --top 5
    """
    from functools import cache

    from gptcalc.analysis.sweep.piece import Axis
    from gptcalc.analysis.sweep.run import Grid, Sweep
    from gptcalc.conventions import SweepRun
    from gptcalc.sources import load

    if points is not None and (settings or context is not None or batch != "1"):
        raise InputError("--points: the file says what varies", "leave --set, --context and --batch out", "usage")
    if points is None and not settings and context is None and batch == "1":
        raise InputError("sweep: nothing to vary", "give --set n_kv_heads=1,2,4,8", "usage")
    loaded = load(model)
    axes = tuple(Axis(*axis(setting)) for setting in settings)
    if len({one.key for one in axes}) < len(axes):
        raise InputError("--set: a key is given twice", "write all of its values after one =", "usage")
    grid = Grid(
        document=loaded.document, axes=axes, contexts=(None,) if context is None else numbers(context, "--context"),
        batches=numbers(batch, "--batch"), columns=None if columns is None else listed(columns, "--columns"),
        where=tuple(where), sort=sort, top=top, pareto=() if pareto is None else listed(pareto, "--pareto"),
        part=(1, 1) if of is None else part(of), points=points, jobs=jobs,
        how=SweepRun(dtype=dtype, kv_dtype=kv_dtype, state_dtype=state_dtype, mla=mla),
    )  # fmt: skip
    made = Sweep(grid)

    @cache
    def rows() -> list[dict[str, Any]]:
        return made.rows()

    def shown() -> Any:
        if plot is not None:
            raise InputError("--plot: points are drawn into a file", "add -o FILE.svg or -o FILE.png", "usage")
        number = made.range[1] - made.range[0]
        if number > MOST_SHOWN and made.streams and not where and (top or number) > MOST_SHOWN:
            raise InputError(f"sweep: {number:,} rows are no table", "--where, --top, or --format csv", "usage")
        return show("sweep", rows(), made.columns)()

    def pieces(format: Format) -> Iterator[str]:
        return written(made, format, None if made.streams else rows())

    def drawn() -> str:
        from gptcalc.report.scatter import Scatter, chosen, document

        keys = [*(one.key for one in axes or getattr(made.space, "axes", ())), "context", "batch"]
        return document(
            Scatter(
                f"{loaded.architecture.name}: {len(rows()):,} of {len(made.space):,} points",
                *chosen(plot, made.columns, keys),
                rows(),
            )
        )

    def packed() -> Iterator[bytes]:
        from gptcalc.report import parquet

        return parquet.packed(blocks(made, None if made.streams else rows()), made.columns)

    return Answer(
        rows, shown, loaded.notes, drawn={"svg": drawn}, pieces=pieces, packed=packed, late=lambda: refused(made)
    )


def blocks(made: Sweep, rows: list[dict[str, Any]] | None) -> Iterator[list[list[Any]]]:
    """Columns of values at a time: as they are made, or those of all rows."""
    if rows is None:
        return made.lists()
    return iter([[[row[key] for row in rows] for key in made.columns]] if rows else [])


def written(made: Sweep, format: Format, rows: list[dict[str, Any]] | None) -> Iterator[str]:
    """The rows as text, a piece at a time."""
    from gptcalc.report import sweep as report

    return {"csv": report.csv, "json": report.array, "jsonl": report.lines}[format](blocks(made, rows), made.columns)


def refused(made: Sweep) -> tuple[str, ...]:
    """Why some combinations are no models."""
    found = made.space.refused.items()
    return tuple(f"{number:,} point{'s' * (number > 1)} left out: {message}" for message, number in found)


def axis(setting: str, option: str = "--set") -> tuple[str, tuple[int | str, ...]]:
    """A key and its values. A range's step stands behind a colon."""
    key, equals, values = setting.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise InputError(
            f"{option} {printable(setting)!r} is not KEY=VALUES", f"write {option} n_kv_heads=1,2,4,8", "usage"
        )
    words = [word.strip() for word in values.split(",")]
    if not all(RANGE.fullmatch(word) for word in words):
        return key.strip(), tuple(words)
    return key.strip(), numbers(values, f"{option} {printable(key.strip())}")


def numbers(text: str, option: str) -> tuple[int, ...]:
    """The numbers of a range."""
    from gptcalc import units

    try:
        return tuple(dict.fromkeys(units.points(text.replace(":", ".."))))
    except InputError as error:
        raise error.within(option) from None


def listed(text: str, option: str) -> tuple[str, ...]:
    """Columns between commas. InputError where there is none."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise InputError(f"{option} {printable(text)!r}: no column at all", COLUMNS, "usage")
    return found
