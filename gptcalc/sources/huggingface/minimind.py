"""MiniMind: three classes that call themselves alike, told apart by fields that only one of them writes.

The first (MiniMindLM) has Llama's own words, the second adds experts to transformers' words, the third norms queries
and keys. Tables are one in the first two, whatever a config says.
"""

from __future__ import annotations

import math

from gptcalc.sources.huggingface.experts import EXPERT_NAMES, own_experts, shared_experts
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA, PREFIX
from gptcalc.sources.huggingface.reader import Hole, Reader, flag, optional, rmsnorm, size, when
from gptcalc.sources.huggingface.rope import rope
from gptcalc.sources.huggingface.tensors import in_layers

_layers = when("use_moe", "n*attn+moe", "n*attn+mlp")


def _share(share: float, *names: str, multiple: str | int = 64) -> Hole:
    """The inner width: given, or so many times the model's, rounded up to a multiple."""

    def read(fields: Fields) -> int:
        given = fields.size(*names)
        step = multiple if isinstance(multiple, int) else fields.needed(multiple)
        return given or math.ceil(int(share * fields.needed("hidden_size", "dim")) / step) * step

    return Hole(read)


def _shared(fields: Fields) -> int:
    """One shared expert unless null says none, in the first class; as many as are said in the second."""
    given = fields.get("n_shared_experts")
    if given is None or isinstance(given, bool):
        return int(given is not None)
    return fields.size("n_shared_experts", least=0) or 0


def _normalized(fields: Fields) -> bool:
    """The weight of a single expert stays what it is."""
    return fields.flag("norm_topk_prob") and fields.needed("num_experts_per_tok") > 1


_routed = {
    "n_experts": size("n_routed_experts"),
    "top_k": size("num_experts_per_tok"),
    "n_shared": Hole(_shared),
    "normalize": Hole(_normalized),
}
_only = {"inference_rope_scaling": False, "scoring_func": "softmax"}
_defaults = {
    "vocab_size": 6400,
    "hidden_act": "silu",
    "rope_theta": 1e6,
    "use_moe": False,
    "norm_topk_prob": True,
}
_running = ("flash_attn",)
_routing = {"n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2}

FIRST = LLAMA.but(
    document={
        "d": size("dim"),
        "c": size("max_seq_len"),
        "n_heads": size("n_heads"),
        "n_layers": size("n_layers"),
        "n_kv_heads": optional("n_kv_heads"),
        "d_head": None,
        "d_ff": _share(8 / 3, "hidden_dim", multiple="multiple_of"),
        "layers": _layers,
        "tying": True,
        "rope": rope(pairing="adjacent"),
        "norm": rmsnorm("norm_eps"),
        "mlp": "swiglu",
        "moe": {**_routed, "d_ff": _share(8 / 3, "hidden_dim", multiple="multiple_of")},
        "bias": None,
    },
    defaults={
        **_defaults,
        **_routing,
        "dim": 512,
        "n_layers": 8,
        "n_heads": 8,
        "n_kv_heads": 2,
        "max_seq_len": 8192,
        "norm_eps": 1e-5,
        "multiple_of": 64,
    },
    only=_only,
    irrelevant=(*_running, "tie_word_embeddings"),
    called=("MiniMindLM",),
    names={
        "embedding.token": "tok_embeddings",
        **in_layers(
            "layers.{l}.",
            {
                "attn.norm": "attention_norm",
                "attn.q": "attention.wq",
                "attn.k": "attention.wk",
                "attn.v": "attention.wv",
                "attn.out": "attention.wo",
                "mlp.norm": "ffn_norm",
                "mlp.gate": "feed_forward.w1",
                "mlp.up": "feed_forward.w3",
                "mlp.down": "feed_forward.w2",
                "moe.norm": "ffn_norm",
                "moe.router": "feed_forward.gate",
                **own_experts("feed_forward.experts", "w1", "w3", "w2"),
                "moe.shared.gate": "feed_forward.shared_experts.w1",
                "moe.shared.up": "feed_forward.shared_experts.w3",
                "moe.shared.down": "feed_forward.shared_experts.w2",
            },
        ),
        "final_norm": "norm",
        "head": "output",
    },
)

_width = _share(8 / 3, "intermediate_size")


def _told(fields: Fields) -> str:
    """A config that says no experts may be the second class's or the third's, which has norms more."""
    if not fields.present("n_routed_experts"):
        why = "three classes call themselves so: n_routed_experts tells the second, num_experts or head_dim the third"
        raise fields.unsupported("n_routed_experts", why)
    return str(_layers.read(fields))


SECOND = LLAMA.but(
    document={
        "d_head": None,
        "d_ff": _width,
        "layers": Hole(_told),
        "tying": True,
        "moe": {**_routed, "d_ff": _width},
        "bias": None,
    },
    defaults={
        **_defaults,
        **_routing,
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-5,
    },
    only=_only,
    irrelevant=(*_running, "tie_word_embeddings"),
    names={**EXPERT_NAMES, **in_layers(PREFIX, shared_experts("mlp.shared_experts.0"))},
)

_wide = _share(math.pi, "intermediate_size")

THIRD = LLAMA.but(
    document={
        "d_ff": _wide,
        "layers": _layers,
        "attn": {"qk_norm": "head"},
        "moe": {
            "n_experts": size("num_experts"),
            "top_k": size("num_experts_per_tok"),
            "d_ff": Hole(lambda fields: fields.size("moe_intermediate_size") or _wide.read(fields)),
            "normalize": flag("norm_topk_prob"),
        },
        "bias": None,
    },
    defaults={
        **_defaults,
        "hidden_size": 768,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "num_experts": 4,
        "num_experts_per_tok": 1,
    },
    only={"inference_rope_scaling": False},
    irrelevant=_running,
    names=EXPERT_NAMES,
)

READERS: dict[str, Reader] = {"minimind": SECOND, "minimind-1": FIRST, "minimind-3": THIRD}
