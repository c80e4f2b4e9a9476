"""Qwen4-Exp: Qwen 3.5's mixture with independent hyper-connections, attention to chosen blocks and n-grams that are
looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import isqrt
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import FULL, RECURRENT, each, every, expression, listed
from gptcalc.sources.huggingface.qwen_next import GATED_DELTA_NET, QWEN3_5_MOE
from gptcalc.sources.huggingface.reader import SEARCHED, Hole, Reader, choice, optional, size
from gptcalc.sources.huggingface.tensors import Names, Parts, fused, in_layers

INDEXED = "indexed_attention"
_mixers = listed(
    "layer_types",
    {FULL: "attn", INDEXED: "attn", RECURRENT: "gdn"},
    every("full_attention_interval", "attn", "gdn"),
)


def _index(fields: Fields) -> dict[str, Any]:
    """A budget of tokens in blocks of so many, and the newest ones that fill none."""
    budget, block = fields.needed("indexer_budget"), fields.needed("indexer_compress_ratio")
    if (of_keys := fields.needed("indexer_kv_heads")) != 1:
        raise fields.unsupported("indexer_kv_heads", f"only 1 is understood, found {of_keys}")
    if budget % block:
        raise InputError(f"{fields.within}indexer_budget: {budget} tokens are no multiple of blocks of {block}")
    return {
        "n_heads": fields.needed("indexer_n_heads"),
        "d": fields.needed("indexer_head_dim"),
        "block": block,
        "top_k": budget // block + 1,
    }


# --- n-grams ----------------------------------------------------------------------------------------------------------

BITS = 2**64 - 1


def _mixed(value: int) -> int:
    """SplitMix64's output function, one step on."""
    value = (value + 0x9E3779B97F4A7C15) & BITS
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & BITS
    return value ^ (value >> 31)


def _multipliers(fields: Fields, number: int) -> list[int]:
    """Odd numbers whose product with a token stays below 2^63."""
    seed = fields.size("seed", least=0) or 0
    bound = max(1, (2**63 - 1) // fields.needed("vocab_size") // 2)
    start = seed + 10007 * number
    return [
        2 * (_mixed((start + 0x9E3779B97F4A7C15 * (place + 1)) & BITS) % bound) + 1
        for place in range(fields.needed("ngram_size"))
    ]


@cache
def _primes(start: int, count: int) -> tuple[int, ...]:
    """So many primes from a number on."""

    def found() -> Iterator[int]:
        number = max(start, 2)
        while True:
            if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
                yield number
            number += 1

    numbers = found()
    return tuple(next(numbers) for _ in range(count))


def _looking_up(fields: Fields) -> list[int]:
    """The layers with a table, counted from 1."""
    chosen = fields.items("ple_layer_ids") or []
    n = fields.needed("num_hidden_layers")
    if any(type(number) is not int or not 1 <= number <= n for number in chosen):
        fields.wrong(("ple_layer_ids",), f"numbers of layers, from 1 to {n}", chosen)
    return sorted(set(chosen))


def _engram(fields: Fields, number: int) -> dict[str, Any]:
    """The table of the so-manieth layer that has one: each head has as many rows as the next prime says."""
    longest, of_each = fields.needed("ngram_size"), fields.needed("heads_per_ngram")
    if longest < 2:
        fields.wrong(("ngram_size",), "2 or more", longest)
    heads = (longest - 1) * of_each
    width = fields.size("ple_embed_dim") or fields.needed("hidden_size")
    if width % heads:
        raise InputError(f"{fields.within}ple_embed_dim: {width} channels are no multiple of {heads} heads")
    rows = _primes(fields.needed("ngram_vocab_size_base"), heads * (number + 1))[heads * number :]
    multiple = fields.needed("make_ngram_vocab_size_divisible_by")
    end = fields.get("eos_token_id")
    if end is None or end == []:
        raise fields.missing("eos_token_id")
    return {
        "like": "engram",
        "hashing": {
            "rows": list(rows),
            "multipliers": _multipliers(fields, number),
            "end": end[0] if isinstance(end, list) and end else end,
        },
        "table": -(-sum(rows) // multiple) * multiple,
        "d_row": width // heads,
        "kernel": fields.needed("ple_conv_kernel_size"),
    }


def _searched(fields: Fields) -> dict[str, Any]:
    """The layers, and a section for each of those that look n-grams up."""
    n = fields.needed("num_hidden_layers")
    mixers: Sequence[str] = each(_mixers, fields, n)
    sections: dict[str, Any] = {}
    for number, layer in enumerate(_looking_up(fields)):
        name = f"ngram{layer}"
        if mixers[layer - 1] != "gdn":
            raise fields.unsupported("ple_layer_ids", f"n-grams in layer {layer}, which has attention")
        sections[name] = _engram(fields, number)
    if not sections:
        for name in ("ple_embed_dim", "ngram_size", "heads_per_ngram", "seed", "ngram_vocab_size_base"):
            fields.get(name)
    blocks = [f"ngram{i + 1}+{m}+moe" if f"ngram{i + 1}" in sections else f"{m}+moe" for i, m in enumerate(mixers)]
    return {"layers": expression(blocks), **sections}


def _connection(ours: str, theirs: str) -> Names:
    names = {"norm": "hc_norm", "down": "input_mix_weight_down", "up": "input_mix_weight_up"}
    return {f"{ours}.{key}": f"{theirs}.{name}" for key, name in {**names, "spread": "block_inject_weight"}.items()}


_INDEX: Parts = (("attn.index.q", "index.n_heads"), ("attn.index.k", 1))

QWEN4_EXP = QWEN3_5_MOE.but(
    document={
        "layers": None,
        SEARCHED: Hole(_searched),
        "norm": QWEN3_5_MOE.document["norm"],
        "final_norm": False,
        "streams": {
            "n": size("hc_count", least=2),
            "mixed": False,
            "rank": size("hc_lowrank"),
            "norm": QWEN3_5_MOE.document["norm"],
        },
        "attn": {**QWEN3_5_MOE.document["attn"], "norm": "none", "index": Hole(_index)},
        "gdn": {**GATED_DELTA_NET, "norm": "none", "gate": choice("output_gate_type", null="silu", silu="silu",
                                                                  swish="silu", sigmoid="sigmoid")},
        "moe": {**QWEN3_5_MOE.document["moe"], "norm": "none"},
        "engram": {"norm": QWEN3_5_MOE.document["norm"]},
        "d_ff": optional("intermediate_size"),
        "mtp": None,
    },
    defaults={"full_attention_interval": 4, "partial_rotary_factor": None},
    only={"output_gate_type": ()},
    beyond=("eos_token_id",),  # which ends n-grams
    irrelevant=("split_ngram_parts", "number_of_conv_states"),
    names={
        **in_layers(
            PREFIX,
            {
                **_connection("streams", "attn_hyper_connection"),
                **_connection("streams2", "mlp_hyper_connection"),
                **fused("self_attn.indexer.index_qk_proj", _INDEX),
                "attn.index.q_norm": "self_attn.indexer.q_layernorm",
                "attn.index.k_norm": "self_attn.indexer.k_layernorm",
                "engram.norm": "ple.norm_query",
                "engram.table": ("ple.ple_embedding.ngram_embedding.shard_{part}", "ple.ple_embedding.ngram_embedding"),
                "engram.k": "ple.key_proj",
                "engram.v": "ple.value_proj",
                "engram.key_norm": "ple.norm_key",
                "engram.conv_norm": "ple.norm_conv",
                "engram.conv": "ple.conv1d",
            },
        ),
        **{
            f"head.{key}": name
            for key, name in _connection("streams", "model.hyper_connection_mixer").items()
            if not key.endswith("spread")
        },
    },
)  # fmt: skip

READERS: dict[str, Reader] = {"qwen4_exp_text": QWEN4_EXP}
