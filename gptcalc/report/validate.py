"""How a validation is shown."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.report.table import Column, Table, View
from gptcalc.validate import Validation

CHECKS = (
    Column("model", "model"),
    Column("name", "check"),
    Column("expected", "expected", "number"),
    Column("found", "found", "number"),
    Column("ok", "ok"),
    Column("witness", "witness"),
)
MODELS = (
    Column("model", "model"),
    Column("ok", "ok"),
    Column("checks", "checks", "number"),
    Column("failed", "failed"),
)


def view(found: Sequence[Validation]) -> View:
    """One model: its checks. Several: one row each, and the checks that failed."""
    rows = [(v.model, c.name, c.expected, c.found, c.ok, c.witness) for v in found for c in v.checks]
    every = Table(CHECKS, rows)
    if len(found) == 1:
        (only,) = found
        table = Table(CHECKS[1:], [row[1:] for row in rows], title=f"{only.model}: {verdict(only)}")
        return View([table], every)
    models = [(v.model, v.ok, len(v.checks), ", ".join(c.name for c in v.checks if not c.ok)) for v in found]
    failed = Table(CHECKS, [row for row in rows if not row[4]], title="what differs")
    passed = sum(v.ok for v in found)
    return View([Table(MODELS, models), failed, f"{passed} of {len(found)} models pass"], every)


def verdict(validation: Validation) -> str:
    failed = sum(not check.ok for check in validation.checks)
    return "all checks pass" if not failed else f"{failed} of {len(validation.checks)} checks fail"
