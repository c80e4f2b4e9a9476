"""Fragments of mixtures of experts that readers share: names of tensors, groups, DeepSeek's routing."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import PREFIX
from gptcalc.sources.huggingface.pattern import Units, every, first, listed
from gptcalc.sources.huggingface.reader import Hole, flag, number, optional, size
from gptcalc.sources.huggingface.tensors import EXPERTS_GATE_UP, Entry, Names, bare, in_layers


def own_experts(
    module: str, gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj", together: str | None = None
) -> dict[str, Entry]:
    """Experts of which each has three tensors of its own, or (as transformers 5 stores them) two for all together."""
    all_experts = together or module
    both = bare(f"{all_experts}.gate_up_proj", parts=EXPERTS_GATE_UP)
    return {
        "moe.gate": (f"{module}.{{e}}.{gate}", both),
        "moe.up": (f"{module}.{{e}}.{up}", both),
        "moe.down": (f"{module}.{{e}}.{down}", bare(f"{all_experts}.down_proj")),
    }


def shared_experts(module: str) -> dict[str, Entry]:
    return {
        "moe.shared.gate": f"{module}.gate_proj",
        "moe.shared.up": f"{module}.up_proj",
        "moe.shared.down": f"{module}.down_proj",
    }


#: experts under `mlp.experts`, the router at `mlp.gate`
EXPERT_NAMES = in_layers(
    PREFIX, {"moe.norm": "post_attention_layernorm", "moe.router": "mlp.gate", **own_experts("mlp.experts")}
)

SHARED_NAMES = in_layers(
    PREFIX, {**shared_experts("mlp.shared_experts"), "moe.selection_bias": bare("mlp.gate.e_score_correction_bias")}
)

#: a multi-token-prediction module is stored as one more layer
MTP_NAMES = in_layers(
    PREFIX, {"embedding_norm": "enorm", "hidden_norm": "hnorm", "projection": "eh_proj", "norm": "shared_head.norm"}
)

MIXTRAL_NAMES = in_layers(
    PREFIX,
    {
        "moe.norm": "post_attention_layernorm",
        "moe.router": ("block_sparse_moe.gate", "mlp.gate"),
        **own_experts("block_sparse_moe.experts", "w1", "w3", "w2", together="mlp.experts"),
    },
)


def groups(n: str = "n_group", top_k: str = "topk_group", score: str = "top2", method: str | None = None) -> Hole:
    """Group-limited routing, where there is more than one group (and topk_method is the one that uses them)."""

    def read(fields: Fields) -> dict[str, Any] | None:
        count, chosen = fields.size(n), fields.size(top_k)
        limited = method is None or fields.get("topk_method") == method
        return {"n": count, "top_k": chosen, "score": score} if limited and count and count > 1 else None

    return Hole(read)


def one_of_all(*names: str, default: int | None = None) -> Hole:
    """A size that may be written as a list with the same entry for every layer."""

    def read(fields: Fields) -> int | None:
        value = fields.get(*names)
        if not isinstance(value, list):
            found = fields.size(*names, least=0)
            return default if found is None else found
        if not value or any(type(item) is not int or item < 0 or item != value[0] for item in value):
            raise fields.unsupported(names[0], "layers that differ are not understood")
        return int(value[0])

    return Hole(read)


EXPERTS: dict[str, Any] = {
    "n_experts": size("n_routed_experts", "num_local_experts", "num_experts"),
    "top_k": size("num_experts_per_tok"),
    "d_ff": size("moe_intermediate_size"),
    "n_shared": optional("n_shared_experts", least=0),
    "normalize": flag("norm_topk_prob"),
    "route_scale": number("routed_scaling_factor"),
}

SIGMOID: dict[str, Any] = {**EXPERTS, "router": "sigmoid", "selection_bias": True, "groups": groups()}

DENSE_OR_SPARSE = {"dense": "mlp", "sparse": "moe"}

#: dense layers first, then experts in every moe_layer_freq-th
SPARSE: Units = listed(
    "mlp_layer_types",
    DENSE_OR_SPARSE,
    first("first_k_dense_replace", "mlp", every("moe_layer_freq", "moe", "mlp", offset=0)),
)


def modules(fields: Fields) -> int:
    """Multi-token-prediction modules; each chooses its keys itself, whatever the last layer does."""
    return fields.size("num_nextn_predict_layers", "num_mtp_layers", least=0) or 0


NAMES: Names = {**EXPERT_NAMES, **SHARED_NAMES}
