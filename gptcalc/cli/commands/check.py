"""gptcalc check"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from gptcalc.cli.answer import Answer, show
from gptcalc.cli.options import (
    Batch,
    Context,
    KVDType,
    Logits,
    Mla,
    MlaCache,
    Model,
    Pairs,
    Phase,
    Set,
    context_warnings,
)
from gptcalc.errors import InputError, did_you_mean, printable


def command(
    model: Model,
    expect: Annotated[
        list[str],
        typer.Option(
            "--expect", metavar="KEY=VALUE", show_default=False,
            help="A key of params' JSON, or of another command's behind its name: total=…, kv.bytes=…, flops.total=…",
        ),
    ] = [],  # noqa: B006
    settings: Set = [],  # noqa: B006
    batch: Batch = 1,
    context: Context = None,
    kv_dtype: KVDType = "bf16",
    mla_cache: MlaCache = "latent",
    phase: Phase = "prefill",
    pairs: Pairs = "causal",
    mla: Mla = None,
    logits: Logits = "all",
) -> Answer:  # fmt: skip
    """Exit 1 where a figure differs from what is expected; for CI."""
    from gptcalc.sources import load

    if not expect:
        raise InputError("check: no --expect", "such as --expect total=8030261248", "usage")
    loaded = load(model, settings)
    warnings = (*loaded.notes, *context_warnings(loaded.architecture, context))
    length = {"batch": batch, "context": context}
    analyses = _Analyses(loaded.architecture, {
        "params": {},
        "kv": {**length, "kv_dtype": kv_dtype, "mla_cache": mla_cache},
        "flops": {**length, "phase": phase, "pairs": pairs, "mla": mla, "logits": logits},
    })  # fmt: skip
    rows = [_row(setting, analyses) for setting in expect]
    ok = all(row["ok"] for row in rows)
    data = {"model": loaded.architecture.name, "ok": ok, "checks": rows}
    return Answer(data, show("checked", rows, loaded.architecture.name), warnings, 0 if ok else 1)


class _Analyses:
    """The JSON of each analysis, made when a key of it is asked for."""

    def __init__(self, architecture: Any, options: dict[str, dict[str, Any]]) -> None:
        self.architecture = architecture
        self.options = options
        self.found: dict[str, Any] = {}

    def value(self, key: str) -> Any:
        from gptcalc.report.data import pick

        analysis, _, rest = key.partition(".")
        if analysis not in self.options or not rest:
            analysis, rest = "params", key
        if analysis not in self.found:
            import gptcalc

            run: Callable[..., Any] = getattr(gptcalc, analysis)
            self.found[analysis] = run(self.architecture, **self.options[analysis])
        try:
            return pick(self.found[analysis], rest)
        except InputError as error:
            hint = did_you_mean(key, self.options)
            raise InputError(f"--expect {printable(key)}: {error.message}", error.hint or hint, "usage") from None


def _row(setting: str, analyses: _Analyses) -> dict[str, Any]:
    from gptcalc.sources.text import scalar

    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise InputError(
            f"--expect {printable(setting)!r} is not KEY=VALUE", "write --expect total=8030261248", "usage"
        )
    expected = scalar(value.strip().replace(",", ""))
    found = analyses.value(key.strip())
    if isinstance(found, (dict, list, tuple)):
        raise InputError(
            f"--expect {printable(key)}: not a single value", f"such as {key}.{next(iter(found), 0)}", "usage"
        )
    return {"name": key.strip(), "expected": expected, "found": found, "ok": _equal(expected, found)}


def _equal(expected: Any, found: Any) -> bool:
    """Exactly equal; true is not 1."""
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)
