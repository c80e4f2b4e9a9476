"""Fields that nothing reads: which may be left aside, which are named, which refuse an answer.

What decides is the class that runs the file. A field that the class of a type doesn't read can't change what that class
counts: it is ignored, and named. Where there is no class to ask, or where the class reads a field and its reader here
doesn't, only values that say nothing are left aside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from gptcalc.errors import InputError, did_you_mean, printable
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.irrelevant import IRRELEVANT


class Tolerance(Struct, frozen=True):
    """How a person wants unread fields to be taken."""

    strict: bool = False  # none of them passes
    ignore: frozenset[str] = frozenset()  # these pass, whatever they might change


#: that of this run: the command line sets it for all models that a command reads
TOLERANCE: ContextVar[Tolerance | None] = ContextVar("TOLERANCE", default=None)


def tolerance() -> Tolerance:
    return TOLERANCE.get() or Tolerance()


class Ignored(str):
    """The note that names ignored fields; `names` are theirs."""

    names: tuple[str, ...]

    def __new__(cls, text: str, names: Iterable[str]) -> Ignored:
        note = super().__new__(cls, text)
        note.names = tuple(names)
        return note


#: how names end that say which token of the vocabulary is which
OF_TOKENS = ("_token_id", "_token_ids", "_token_index")
#: and how those of rates of dropout and learning, and of weights of losses
OF_TRAINING = (
    "dropout",
    "dropout_prob",
    "dropout_rate",
    "_pdrop",
    "drop_path_rate",
    "_lr",
    "_loss_coef",
    "_loss_weight",
)


def is_irrelevant(name: str) -> bool:
    last = name.rpartition(".")[2]
    named = last in IRRELEVANT or name in IRRELEVANT
    return named or last.startswith("_") or last.endswith(OF_TOKENS) or last.endswith(OF_TRAINING)


def is_neutral(value: Any) -> bool:
    """null, false, 0, an empty list or object: a value that switches nothing on."""
    return value in (None, False, 0, "") or (isinstance(value, (list, tuple, dict)) and not value)


#: what makes a decoder something else, whatever class reads it
FOR_DECODERS = ("is_encoder_decoder", "add_cross_attention")


def check(fields: Fields, only: Mapping[str, Any], irrelevant: Collection[str], vendor: Mapping[str, str]) -> None:
    """Every field must be read, have its one understood value, say nothing, or be one that the class doesn't read.

    Ignored fields are noted; all that may change the count are named in one error.
    """

    def of(name: str) -> str:
        return f" (which {vendor[name]}'s own code reads)" if name in vendor else ""

    allowed = tolerance()
    asked = {name for name in fields.asked if fields.reads(name)}
    ignored: list[str] = []
    refused: list[str] = []
    for name, value in fields.values.items():
        if name in asked or value is None or name in irrelevant or is_irrelevant(name):
            continue
        if name in FOR_DECODERS and value is True and name not in only:
            raise fields.unsupported(name, "only false is understood, found true")
        unread = fields.is_unread(name) or name in vendor
        if name in only:
            options = only[name] if isinstance(only[name], tuple) else (only[name],)
            if shown(value) in [shown(option) for option in options]:
                continue
            if not unread and name not in allowed.ignore:
                if not options:
                    raise fields.unsupported(name, f"{shown(value)} is not supported yet")
                likely = " or ".join(shown(option) for option in options)
                raise fields.unsupported(name, f"only {likely} is understood, found {shown(value)}")
        if says_nothing(name, value, fields):
            continue
        if name in vendor and name not in allowed.ignore and fields.values.get("auto_map"):
            problem = f"the code of {vendor[name]} that auto_map names reads it, the class that is counted doesn't"
            error = fields.unsupported(name, f"{shown(value)} is not understood: {problem}")
            raise InputError(error.message, f"--ignore {name} counts transformers' class", error.kind)
        if name in allowed.ignore or (unread and not allowed.strict):
            restated(name, value, fields)
            if name not in allowed.ignore and (meant := misspelt(name, fields)) is not None:
                raise not_understood([name], fields, [meant])
            ignored.append(name)
        else:
            refused.append(name)
    if refused:
        raise not_understood(refused, fields, [*asked, *only])
    if ignored:
        values = {name: f"{printable(name)} = {shown(fields.values[name])}" for name in ignored}
        named = ", ".join(f"{fields.within}{value}{of(name)}" for name, value in values.items())
        reader = "the class" if fields.known is None else f"transformers' class of {printable(fields.model_type)}"
        text = f"ignored, for {reader} doesn't read {'it' if len(ignored) == 1 else 'them'}: {named}"
        fields.notes.append(Ignored(text, [fields.within + name for name in ignored]))


def says_nothing(name: str, value: Any, fields: Fields) -> bool:
    """Whether a value is what the class assumes anyway, or switches nothing on."""
    usual = fields.defaults.get(fields.known.own(name) if fields.known else name)
    return value == usual if usual is not None and fields.reads(name) else is_neutral(value) or value == usual


def not_understood(names: list[str], fields: Fields, known: list[str]) -> InputError:
    named = ", ".join(repr(printable(fields.within + name)) for name in names)
    few = len(names) == 1
    kind = printable(fields.model_type)
    strictly = tolerance().strict and not any(fields.reads(name) for name in names)
    why = "ignored by its class" if strictly else "not understood and may change the count"
    hint = did_you_mean(names[0].rpartition(".")[2], known) if few else None
    return InputError(
        f"field{'' if few else 's'} {named} of model_type {kind!r} {'is' if few else 'are'} {why}",
        hint or f"--ignore {printable(names[0])} accepts {'it' if few else 'one, and may be repeated'}",
        "unsupported",
    )


#: names that families have for one size
SIZES = (
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "embed_dim"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups"),
    ("head_dim", "kv_channels", "attention_head_dim", "d_head"),
    ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff"),
    ("vocab_size", "padded_vocab_size", "n_vocab"),
    ("sliding_window", "sliding_window_size", "window_size"),
    ("num_experts_per_tok", "experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
    ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
)

KV_HEADS = "num_key_value_heads"
#: names that classes use for other things than a size of the model
MEANT_OTHERWISE = frozenset({"window_size", "sliding_window_size", "moe_k", "num_experts"})


def misspelt(name: str, fields: Fields) -> str | None:
    """A field that the class reads, is absent, and differs by a slip of the pen."""
    from difflib import get_close_matches

    absent = (own for own in fields.known.reads if fields.values.get(own) is None) if fields.known else ()
    return next(iter(get_close_matches(name, absent, n=1, cutoff=0.93)), None)


#: what transformers allows in layer_types of any config, whether or not the class reads it
LAYER_TYPES = frozenset({
    "full_attention", "sliding_attention", "chunked_attention", "window_attention", "indexed_attention",
    "compressed_sparse_attention", "heavily_compressed_attention", "minimax_m3_sparse", "conv", "moe", "hybrid",
    "hybrid_sliding", "reference_sliding_attention", "linear_attention",
    "mamba", "attention", "deepseek_sparse_attention", "qwen_sparse_attention",  # older names
})  # fmt: skip


def restates(name: str, fields: Fields) -> bool:
    """Whether a field is another family's name for a size that the class reads, and says the same."""
    same = next((group for group in SIZES if name in group), ())
    value = fields.values.get(name)
    return any(fields.values.get(own, fields.defaults.get(own)) == value for own in same if fields.reads(own))


def restated(name: str, value: Any, fields: Fields) -> None:
    """Another family's name for a size may stand there where it says what the class's own field says; a list of layers
    where it is one."""
    n = fields.values.get("num_hidden_layers")
    if name == "layer_types" and isinstance(value, list):
        for i, word in enumerate(value):
            if not isinstance(word, str) or word not in LAYER_TYPES:
                raise fields.unsupported(f"{name}[{i}]", f"layer type {shown(word)} is not understood")
        if isinstance(n, int) and len(value) != n:
            raise InputError(f"{fields.within}{name} has {len(value)} entries, the model {n} layers")
    same = next((group for group in SIZES if name in group), ())
    said = {other: fields.values.get(other) for other in same if other != name and fields.reads(other)}
    said = {other: own for other, own in said.items() if own is not None}
    for other, own in said.items():
        if own != value:
            raise InputError(
                f"{fields.within}{name} = {shown(value)} contradicts {fields.within}{other} = {shown(own)}"
            )
    if not said:
        in_place_of_own(name, value, same, fields)


def in_place_of_own(name: str, value: Any, same: Collection[str], fields: Fields) -> None:
    """A size in another family's words alone: the class doesn't see it, and takes what it assumes."""
    own = next((other for other in same if fields.known and other in fields.known.reads), None)
    if own is None or name in MEANT_OTHERWISE:
        return
    usual = fields.defaults.get(own)
    if own == KV_HEADS and usual is None:
        usual = fields.get("num_attention_heads")
    if usual is not None and usual != value:
        problem = f"{fields.within}{name} = {shown(value)} is not what the class reads: without {own} it takes"
        raise InputError(f"{problem} {shown(usual)}", f"say {own}, or --ignore {printable(name)}")
