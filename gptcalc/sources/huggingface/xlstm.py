"""xLSTM: mLSTM before a gated MLP."""

from __future__ import annotations

from gptcalc.errors import InputError
from gptcalc.sources.huggingface.fields import Fields
from gptcalc.sources.huggingface.llama import LLAMA
from gptcalc.sources.huggingface.mamba import PLAIN
from gptcalc.sources.huggingface.reader import Hole, Reader, number, rmsnorm, size
from gptcalc.sources.huggingface.tensors import GATE_UP, Held, Names, Parts, fused, in_layers


def per_head(factor: str) -> Hole:
    """A head's share of a width that is a fraction of the model's."""

    def read(fields: Fields) -> int:
        part, heads = fields.number(factor), fields.needed("num_heads")
        width = int(fields.needed("hidden_size") * (1 if part is None else part))
        if width % heads:
            raise InputError(f"{fields.within}num_heads: {heads} heads do not divide {width} channels ({factor})")
        return width // heads

    return Hole(read)


def embedded(fields: Fields) -> int:
    """The model's width, which the class has under two names."""
    d, table = fields.needed("hidden_size"), fields.size("embedding_dim")
    if table is not None and table != d:
        raise InputError(f"{fields.within}hidden_size = {d} contradicts {fields.within}embedding_dim = {table}")
    return d


def rounded_up(fields: Fields) -> int:
    """The MLP's width, rounded up to a multiple."""
    multiple = fields.needed("ffn_round_up_to_multiple_of")
    width = fields.needed("hidden_size") * (fields.number("ffn_proj_factor") or 1)
    return int((width + multiple - 1) // multiple * multiple)


def either(parts: Parts, fused_name: str, names: tuple[str, ...], module: str = "mlstm_layer") -> Names:
    """Matrices apart, or side by side in one (weight_mode)."""
    together = fused(f"{module}.{fused_name}", parts)
    return {
        stem: (f"{module}.{name}", held)
        for (stem, held), name in zip(together.items(), names, strict=True)
        if isinstance(held, Held)
    }


_gates: Parts = (("mlstm.input_gate", 1), ("mlstm.forget_gate", 1))
_inputs: Parts = (("mlstm.q", "k_width"), ("mlstm.k", "k_width"), ("mlstm.v", "v_width"), ("mlstm.gate", "v_width"))

XLSTM = LLAMA.but(
    document={
        **PLAIN,
        "d": Hole(embedded),
        "n_layers": size("num_blocks", "num_hidden_layers"),
        "layers": "n*mlstm+mlp",
        "d_ff": Hole(rounded_up),
        "mlp": "swiglu",
        "norm": rmsnorm("norm_eps"),
        "softcap": number("output_logit_soft_cap"),
        "mlstm": {
            "n_heads": size("num_heads"),
            "d_k": per_head("qk_dim_factor"),
            "d_v": per_head("v_dim_factor"),
            "gate_softcap": number("gate_soft_cap"),
            "out_norm": {"kind": "layernorm", "bias": False},
            "chunk": size("chunk_size"),
        },
    },
    only={"use_bias": False, "add_out_norm": True},
    irrelevant=(
        "norm_reduction_force_float32", "chunkwise_kernel", "sequence_kernel", "step_kernel", "mode", "eps",
        "return_last_states", "autocast_kernel_dtype", "inference_state_dtype", "weight_mode",
        "max_inference_chunksize", "num_hidden_layers", "head_dim", "hidden_act", "mlstm_round_up_to",
        "force_bos_token_insert",
    ),
    names={
        "embedding.token": "backbone.embeddings",
        "final_norm": "backbone.out_norm",
        "head": "lm_head",
        **in_layers(
            "backbone.blocks.{l}.",
            {
                "mlstm.norm": "norm_mlstm",
                **either(_inputs, "qkv_opreact", ("q", "k", "v", "ogate_preact")),
                **either(_gates, "ifgate_preact", ("igate_preact", "fgate_preact")),
                "mlstm.out_norm": "mlstm_layer.multihead_norm",
                "mlstm.out": "mlstm_layer.out_proj",
                "mlp.norm": "norm_ffn",
                **either(GATE_UP, "proj_up_gate_z", ("proj_up_gate", "proj_up"), "ffn"),
                "mlp.down": "ffn.proj_down",
            },
        ),
    },
)  # fmt: skip

READERS: dict[str, Reader] = {"xlstm": XLSTM}
