"""The figures that people quote as a model's parameters, each with what it counts."""

from __future__ import annotations

from math import prod

from gptcalc.analysis.params import Entry, ledger, params
from gptcalc.architecture import Architecture
from gptcalc.equations import Equations, Tensor, equations

#: rows of a vocabulary are made a multiple of this, so that matrix units are full (Megatron-LM's
#: make-vocab-size-divisible-by; nanoGPT's 50304 is GPT-2's 50257, so padded)
PADDING = 128

#: every figure by its key: its name, and what it counts
CUSTOMS = {
    "total": ("parameters", "learned weights of the main model, a tied matrix once"),
    "without_embedding": ("without embedding", "neither tables of tokens, positions nor types (Kaplan et al. 2020)"),
    "without_tables": ("without embedding and output", "no output matrix either; of a tied one the same"),
    "untied": ("tied matrix twice", "as files and sums over modules count that hold the output matrix on its own"),
    "padded": ("vocabulary padded", f"rows of the vocabulary filled to a multiple of {PADDING}"),
    "with_mtp": ("with MTP", "the multi-token-prediction modules, too"),
    "with_mtp_tables": ("with MTP and its tables", "modules that hold the token table and the output matrix once more"),
    "active": ("active", "what a token uses, every table whole"),
    "active_without_lookup": (
        "active without lookups",
        "of the tables only what is multiplied: the output matrix",
    ),
    "active_without_tables": (
        "active without tables",
        "neither tables nor output matrix, the layers alone",
    ),
}


def customs(architecture: Architecture) -> dict[str, int]:
    """Each figure of CUSTOMS, for one model."""
    model, found = equations(architecture), params(architecture)
    entries = [entry for entry in ledger(model) if entry.stage is not model.mtp]
    tables, output = found.embedding, found.components["output"]
    tied = sum(tensor.params for tensor in _read_again(model))
    modules = 0 if architecture.mtp is None else architecture.mtp.n
    vocabulary = sum(entry.total for entry in entries if entry.tensor.weight.use in ("tokens", "logits"))
    return {
        "total": found.total,
        "without_embedding": found.non_embedding,
        "without_tables": found.without_tables,
        "untied": found.total + tied,
        "padded": found.total + sum(map(_filled, entries)),
        "with_mtp": found.total + found.mtp,
        "with_mtp_tables": found.total + found.mtp + modules * (vocabulary + tied),
        "active": found.active,
        "active_without_lookup": found.active - tables + tied,
        "active_without_tables": found.active - tables - output,
    }


def _read_again(model: Equations) -> list[Tensor]:
    """The token table where the output multiplies with it."""
    own = {entry.tensor.weight.key for entry in ledger(model)}
    tensors = [tensor for line in model.output.lines for tensor in line.tensors()]
    return [tensor for tensor in tensors if tensor.weight.tied and tensor.weight.key in own]


def _filled(entry: Entry) -> int:
    """What rows up to the next multiple add to a tensor that has a row for every token."""
    indices = entry.tensor.indices
    rows = [index.size for index in indices if index.role == "vocabulary"]
    if not rows:
        return 0
    return sum(-row % PADDING * (prod([index.size for index in indices]) // row) for row in rows)
