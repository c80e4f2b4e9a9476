"""GLM-5.3-Flash: the figures of its preset, by hand, and deliberate errors that one of them notices.

The total is that of transformers 5.24's class, made of the published config on the meta device; 136 MiB of states,
11 KiB of latents and 0.7 KiB of the indexer's keys a token are also what SlimServe's notes derive from the config.
"""

from __future__ import annotations

import importlib

import pytest

from gptcalc.analysis.flops import flops
from gptcalc.analysis.memory.cache import kv
from gptcalc.analysis.memory.training import training
from gptcalc.analysis.params import params
from gptcalc.analysis.traffic import Traffic
from gptcalc.architecture import LinearAttention
from gptcalc.conventions import Engine, TimeRun
from gptcalc.equations.model import remembered
from gptcalc.errors import InputError
from gptcalc.sources import load
from gptcalc.sources.huggingface import read
from tests.mutation import mutate

D, WIDE = 4096, 64 * 128
#: 34 delta rules: q, k, v, out, convolutions over 4, decay and gate through 128, one β a head, 3 products with states
DELTA = 4 * D * WIDE + 3 * WIDE * 4 + 2 * (D * 128 + 128 * WIDE) + D * 64 + 3 * 64 * 128 * 128
#: 11 layers that attend: queries through 1,536, latents of 512, absorbed; the indexer's queries, keys, gates, weights
LATENT = D * 1536 + 1536 * 64 * 256 + D * 512 + 2 * 64 * 256 * 512 + 64 * 256 * D
INDEXER = 1536 * 32 * 128 + 2 * D * 128 + D * 32
#: the router, 8 experts and the shared one
MOE = D * 288 + 9 * 3 * D * 2048
#: at each sublayer: 24 numbers of 4 streams; these joined, and mixed
STREAMS = 4 * D * 24 + 4 * D + 16 * D


def decode(context: int, completed: int) -> int:
    """Every active matrix once; of complete blocks of 4 all are scored, 512 are seen, and what fills none."""
    blocks = context // 4
    seen = 4 * min(blocks, 512) + context % 4
    attended = blocks * 32 * (128 + 1) + 2 * 64 * 512 * seen + completed * 4 * 128
    layers = 34 * DELTA + 11 * (LATENT + INDEXER + attended) + 3 * 3 * D * 12_288 + 42 * MOE + 90 * STREAMS
    return 2 * (layers + D * 154_880)


FIGURES: dict[str, int] = {
    "total": 313_326_811_966,
    "latents and keys": 11 * 2 * (512 * 4096 + 128 * 1024),
    # in fp32; in 16 bits the last 3 inputs of 3 convolutions, and of the open block's 4 tokens keys and weights
    "states": 34 * (4 * 64 * 128 * 128 + 2 * 3 * 3 * WIDE) + 11 * 2 * 2 * 4 * 128,
    "decode 1000": decode(1000, 1),
    "decode 4096": decode(4096, 1),
    "decode 4099": decode(4099, 0),
}

#: the error, the module, what is written, what the mutant writes, the figure that must notice
MUTANTS: list[tuple[str, str, str, str, str]] = [
    ("blocks without weights of their tokens", "equations.compressed", "**_marked(table, f\"{key}.position\"),", "",
     "total"),
    ("weights that nothing makes", "equations.compressed",
     '{both}]", saved=2, **_marked(f"W_CG{name}", f"{key}.gate"))', '{both}]", saved=2)', "total"),
    ("a mixture that costs nothing", "equations.compressed", 'lines.sum(f"{to}[χ,{one}] =',
     'lines.pointwise(f"{to}[χ,{one}] =', "decode 4096"),
    ("a key for each token", "equations.latent", '"index keys", Entries(block))', '"index keys", Pairs())',
     "latents and keys"),
    ("an open block that is forgotten", "equations.compressed", 'lines.store(f"{what}{name}',
     '0 and lines.store(f"{what}{name}', "states"),
    ("scores of tokens", "equations.latent", 'lines.sum("ζ[t,χ,j] = Σ_ι q_I[t,j,ι]·C_I[χ,ι]", Entries(block))',
     'lines.sum("ζ[t,χ,j] = Σ_ι q_I[t,j,ι]·C_I[χ,ι]", Entries(1))', "decode 4099"),
    ("a block too few", "equations.latent", "top_k=index.top_k + 1, block", "top_k=index.top_k, block", "decode 4099"),
    ("an own block that counts as complete", "equations.latent", "complete=True)", "complete=False)", "decode 4096"),
    ("tokens that are chosen", "equations.latent", "if index.block is None:\n        return Pairs",
     "if True:\n        return Pairs", "decode 4099"),
    ("blocks as many as tokens", "sources.huggingface.glm5", "int(tokens) // int(block)", "int(tokens)", "decode 4099"),
    ("streams weighed at the end", "equations.hyper", 'if s.end == "mean":', "if False:", "total"),
    ("a decay without its bound", "sources.huggingface.glm5", '{"form": "bounded", "floor": floor}', "{}", "form"),
]  # fmt: skip
CONFIG = {"model_type": "glm5_next", "architectures": ["Glm5NextForConditionalGeneration"],
          "text_config": {"model_type": "glm5_next_text", "index_kpool": 4}}  # fmt: skip


def figure(name: str) -> object:
    remembered.cache_clear()
    model = read(CONFIG).architecture
    what, _, at = name.partition(" ")
    if what == "decode":
        return flops(model, context=int(at), phase="decode").total
    if what == "total":
        return params(model).total
    if what == "form":
        return next(m.decay.form for m in model.mixers() if isinstance(m, LinearAttention) and m.decay is not None)
    found = kv(model, context=4096)
    return found.state_bytes if what == "states" else found.bytes - found.state_bytes


@pytest.mark.parametrize("name", FIGURES)
def test_clean_code_gives_the_figure(name: str) -> None:
    assert figure(name) == FIGURES[name]


def test_the_preset_is_what_the_config_says() -> None:
    """Those the class's defaults with blocks of 4 give, too; its card says 320 billion and 18, with a further layer."""
    preset = load("glm-5.3-flash").architecture
    assert params(preset).total == FIGURES["total"]
    assert flops(preset, context=4099, phase="decode").total == FIGURES["decode 4099"]


@pytest.mark.parametrize(("error", "module", "old", "new", "name"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_is_noticed(error: str, module: str, old: str, new: str, name: str) -> None:
    right = figure(name)
    with pytest.MonkeyPatch.context() as patch:
        mutate(importlib.import_module(f"gptcalc.{module}"), old, new, patch)
        try:
            assert figure(name) != right, f"{error}: {name} does not notice"
        except AssertionError:
            raise
        except Exception:
            pass  # what doesn't fit together any more is noticed at once
    remembered.cache_clear()


def test_what_a_step_reads() -> None:
    """Latents of what attention sees, one key for each complete block; what is open is read and written."""
    traffic = Traffic(load("glm-5.3-flash").architecture, TimeRun(context=4099), "decode")
    stages = {cost.stage: cost for cost in traffic.costs(0, 1)}
    assert stages["mla+moe"].cache == 11 * 2 * ((512 * 4 + 3) * 512 + 1024 * 128 + 2 * 2 * 4 * 128)


def test_streams_whose_mean_is_taken_can_be_trained() -> None:
    found = training(load("glm-5.3-flash").architecture, context=8)
    assert found.params == FIGURES["total"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "transformers"])
def test_engines_are_not_known_to_keep_keys_of_blocks(engine: Engine) -> None:
    with pytest.raises(InputError, match="not known here"):
        kv(load("glm-5.3-flash").architecture, context=4096, engine=engine)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"index_kpool": 1}, "index_kpool"),
        ({"index_kpool": 3}, "index_kpool"),
        ({"qk_rope_head_dim": 8}, "qk_rope_head_dim"),
        ({"index_kpool_always_select_tail": False}, "index_kpool_always_select_tail"),
        ({"indexer_types": ["full"] * 44 + ["shared"]}, None),
        ({"indexer_types": ["full"] * 3 + ["shared"] * 42}, "indexer_types"),
        ({"linear_lower_bound": 1.0}, "linear_lower_bound"),
    ],
)
def test_what_is_not_defined_is_refused(given: dict[str, object], message: str | None) -> None:
    config = {**CONFIG, "text_config": {"model_type": "glm5_next_text", "index_kpool": 4, **given}}
    if message is None:
        assert params(read(config).architecture).total == FIGURES["total"]
        return
    with pytest.raises(InputError, match=message):
        read(config)


def test_decays_without_a_bound_are_those_of_softplus() -> None:
    for within in (
        {"linear_lower_bound": None},
        {"linear_attn_config": {"gate_lower_bound": None, "safe_gate": False}},
    ):
        mixers = read({**CONFIG, "text_config": {"model_type": "glm5_next_text", **within}}).architecture.mixers()
        assert {m.decay.form for m in mixers if isinstance(m, LinearAttention) and m.decay is not None} == {"softplus"}
    held = {"linear_attn_config": {"gate_lower_bound": None}}
    mixers = read({**CONFIG, "text_config": {"model_type": "glm5_next_text", **held}}).architecture.mixers()
    assert {m.decay.floor for m in mixers if isinstance(m, LinearAttention) and m.decay is not None} == {-5.0}
