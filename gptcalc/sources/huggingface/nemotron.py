"""Nemotron: an MLP without gate; searched architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.arcee import ARCEE
from gptcalc.sources.huggingface.fields import Fields, shown
from gptcalc.sources.huggingface.llama import LLAMA, PLAIN
from gptcalc.sources.huggingface.pattern import expression
from gptcalc.sources.huggingface.reader import Hole, Reader, layernorm

NEMOTRON = ARCEE.but(
    document={"norm": layernorm("norm_eps", offset=1)},
    defaults={"partial_rotary_factor": 0.5},
    irrelevant=("rms_norm_eps",),
)

# --- Searched architectures: a width for each layer -------------------------------------------------------------------


def searched(fields: Fields) -> dict[str, Any]:
    """Sections and layers from block_configs, where each layer has an attention and an MLP of its own, or lacks one."""
    blocks = fields.items("block_configs") or []
    n = fields.needed("num_hidden_layers")
    if len(blocks) != n:
        raise InputError(f"{fields.within}block_configs has {len(blocks)} entries, num_hidden_layers is {n}")
    sections: dict[str, Any] = {}
    names = []
    for i, block in enumerate(blocks):
        parts = [attention_of(block, i, fields, sections), mlp_of(block, i, fields, sections)]
        if parts == [None, None]:
            raise fields.unsupported(f"block_configs[{i}]", "a layer with neither attention nor MLP is not understood")
        names.append("+".join(part for part in parts if part))
    return {"layers": expression(names), **sections}


def part_of(block: Any, key: str, i: int, fields: Fields) -> Mapping[str, Any]:
    part = block.get(key) if isinstance(block, Mapping) else None
    if not isinstance(part, Mapping):
        raise InputError(f"{fields.within}block_configs[{i}].{key}: expected an object, found {shown(part)}")
    if part.get("replace_with_linear") or part.get("sparsify") or part.get("window_length"):
        raise fields.unsupported(f"block_configs[{i}].{key}", "replaced or sparsified parts are not understood")
    return part


def attention_of(block: Any, i: int, fields: Fields, sections: dict[str, Any]) -> str | None:
    part = part_of(block, "attention", i, fields)
    if part.get("no_op"):
        return None
    heads, group = fields.needed("num_attention_heads"), part.get("n_heads_in_group")
    if not isinstance(group, int) or group < 1 or heads % group:
        raise InputError(
            f"{fields.within}block_configs[{i}].attention.n_heads_in_group: {shown(group)} of {heads} heads"
        )
    name = f"attn_{heads // group}"
    sections[name] = {"like": "attn", "n_kv_heads": heads // group}
    return name


def mlp_of(block: Any, i: int, fields: Fields, sections: dict[str, Any]) -> str | None:
    part = part_of(block, "ffn", i, fields)
    if part.get("no_op"):
        return None
    factor = part.get("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1000:
        raise InputError(f"{fields.within}block_configs[{i}].ffn.ffn_mult: expected a number, found {shown(factor)}")
    width = -(-int(2 * factor * fields.needed("hidden_size") / 3) // 256) * 256  # two thirds, in steps of 256
    name = f"mlp_{width}"
    sections[name] = {"like": "mlp", "d_ff": width}
    return name


NEMOTRON_NAS = LLAMA.but(
    document={"n_kv_heads": None, "d_ff": None, "layers": None, "searched": Hole(searched)},
    defaults={**PLAIN, "rms_norm_eps": 1e-5},
    irrelevant=("num_key_value_heads", "intermediate_size", "max_window_layers"),
)

READERS: dict[str, Reader] = {
    "nemotron-nas": NEMOTRON_NAS,
    "nemotron": NEMOTRON,
}
