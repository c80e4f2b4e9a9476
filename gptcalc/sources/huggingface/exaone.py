"""EXAONE: GPT-2's names (3), norms behind the sublayers and layers without positions (4), mixtures."""

from __future__ import annotations

from collections.abc import Sequence

from gptcalc.sources.huggingface.deepseek import ROUTED
from gptcalc.sources.huggingface.experts import SIGMOID, SPARSE
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import BEHIND_NAMES, LLAMA, PREFIX
from gptcalc.sources.huggingface.pattern import listed, stack
from gptcalc.sources.huggingface.reader import Hole, Reader, number, optional, size
from gptcalc.sources.huggingface.tensors import bare, in_layers
from gptcalc.sources.huggingface.windows import TYPES, windows

EXAONE = LLAMA.but(
    document={
        "n_layers": size("num_hidden_layers", "num_layers"),
        "layers": "n*attn+mlp",
        "norm": {"kind": "rmsnorm", "eps": number("rms_norm_eps", "layer_norm_epsilon")},
    },
    names={
        "embedding.token": ("transformer.wte", "model.embed_tokens"),
        **in_layers(
            "transformer.h.{l}.",
            {
                "attn.norm": "ln_1",
                "attn.q": "attn.attention.q_proj",
                "attn.k": "attn.attention.k_proj",
                "attn.v": "attn.attention.v_proj",
                "attn.out": "attn.attention.out_proj",
                "mlp.norm": "ln_2",
                "mlp.gate": "mlp.c_fc_0",
                "mlp.up": "mlp.c_fc_1",
                "mlp.down": "mlp.c_proj",
            },
        ),
        "final_norm": "transformer.ln_f",
    },
)


def exaone_windows(fields: Fields, n: int) -> Sequence[str]:
    """A pattern such as LLLG (local, global), or every how many layers a full one stands."""
    pattern = fields.get("sliding_window_pattern")
    if fields.size("sliding_window") is None:
        return ["attn"] * n
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return ["attn" if pattern[i % len(pattern)] == "G" else "local" for i in range(n)]
    step = fields.needed("sliding_window_pattern")
    return ["local" if (i + 1) % step else "attn" for i in range(n)]


EXAONE4 = LLAMA.but(
    document={
        "layers": stack(listed("layer_types", TYPES, exaone_windows), "mlp"),
        "norm_at": "output",
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
    },
    only={"reorder_and_upcast_attn": False},
    irrelevant=("sliding_window_pattern",),
    names=BEHIND_NAMES,
)

EXAONE_MOE = ROUTED.but(
    document={
        "layers": stack(listed("layer_types", TYPES, exaone_windows), SPARSE),
        "attn": {"qk_norm": "head", "position": Hole(windows)},
        "local": {"like": "attn", "position": "rope", "window": size("sliding_window")},
        "moe": {**SIGMOID, "n_shared": optional("num_shared_experts", least=0)},
    },
    defaults={"first_k_dense_replace": 1},
    irrelevant=("sliding_window_pattern",),
    names=in_layers(
        PREFIX,
        {"moe.selection_bias": (bare("mlp.e_score_correction_bias"), bare("mlp.gate.e_score_correction_bias"))},
    ),
)

READERS: dict[str, Reader] = {
    "exaone": EXAONE,
    "exaone4": EXAONE4,
    "exaone_moe": EXAONE_MOE,
}
