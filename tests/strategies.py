"""Random documents over all features at once, small enough for the witness to run for real."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.strategies_recurrent import CHANNEL_MIXING, SECTIONS

Document = dict[str, Any]

UNGATED = ["relu", "relu2", "gelu", "gelu_tanh", "silu", "xielu"]
GATED = ["swiglu", "geglu", "geglu_tanh", "reglu", "relu2glu", "swiglu_oai"]


def maybe(draw: st.DrawFn, target: Document, key: str, values: st.SearchStrategy[Any], odds: int = 3) -> None:
    """Set a key in one of `odds` cases."""
    if draw(st.integers(1, odds)) == 1:
        target[key] = draw(values)


@st.composite
def norms(draw: st.DrawFn) -> Document:
    kind = draw(st.sampled_from(["rmsnorm", "layernorm"]))
    weight = draw(st.integers(1, 4)) > 1
    norm: Document = {"kind": kind, "weight": weight}
    if weight:
        norm["bias"] = draw(st.booleans())
        norm["offset"] = draw(st.sampled_from([0, 1]))
        maybe(draw, norm, "weight_at", st.just("input"), odds=6)
    norm["eps"] = draw(st.sampled_from([1e-5, 1e-6]))
    return norm


@st.composite
def scalings(draw: st.DrawFn, channels: int) -> Document:
    kinds = ["linear", "yarn", "llama3", "longrope", "proportional"] + (["ntk"] if channels > 2 else [])
    kind = draw(st.sampled_from(kinds))
    if kind in ("linear", "ntk"):
        return {"kind": kind, "factor": draw(st.sampled_from([2.0, 8.0]))}
    if kind == "proportional":
        return {"kind": kind}
    if kind == "longrope":
        factors = [1.0 + 0.25 * k for k in range(channels // 2)]
        return {"kind": kind, "short": factors, "long": [2 * f for f in factors], "original": 64, "factor": 4.0}
    return {"kind": kind, "factor": 4.0, "original": draw(st.sampled_from([8, 32]))}


@st.composite
def ropes(draw: st.DrawFn, d_head: int, partial: bool = True) -> Document:
    channels = draw(st.sampled_from(list(range(2, d_head + 1, 2)))) if partial else d_head
    rope: Document = {"theta": draw(st.sampled_from([100.0, 10000.0]))}
    if channels != d_head:
        rope["channels"] = channels
    maybe(draw, rope, "pairing", st.just("adjacent"))
    maybe(draw, rope, "scaling", scalings(channels))
    return rope


temperatures = st.sampled_from(
    [
        {"floor": 4.0, "scale": 0.1},
        {"floor": 4.0, "scale": 0.2, "form": "power"},
        {"floor": 3.0, "scale": 0.5, "form": "beyond"},
    ]
)


@st.composite
def attentions(draw: st.DrawFn, position: str) -> Document:
    n_kv = draw(st.integers(1, 3))
    section: Document = {
        "n_heads": n_kv * draw(st.integers(1, 3)),
        "n_kv_heads": n_kv,
        "d_head": draw(st.sampled_from([4, 6, 10])),
    }
    d_head = section["d_head"]
    maybe(draw, section, "k_eq_v", st.just(True), odds=6)
    if "k_eq_v" not in section:
        maybe(draw, section, "d_v", st.sampled_from([3, 5, 8]))
    maybe(draw, section, "bias", st.lists(st.sampled_from(["q", "k", "v", "out"]), unique=True))
    if position == "rope":
        section["rope"] = draw(ropes(d_head))
    maybe(draw, section, "qk_norm", qk_norms())
    maybe(draw, section, "v_norm", norms(), odds=5)
    maybe(draw, section, "q_rank", st.integers(3, 9), odds=5)
    maybe(draw, section, "sinks", st.just(True))
    if "sinks" not in section:
        maybe(draw, section, "token_sinks", st.just(True), odds=6)
    if "qk_norm" not in section:
        maybe(draw, section, "qk_limit", st.just(0.9), odds=6)
    maybe(draw, section, "gate", st.sampled_from(["head", "full"]), odds=4)
    if "gate" in section:
        maybe(draw, section, "gate_bias", st.sampled_from([True, "full"]))
    maybe(draw, section, "softcap", st.just(20.0), odds=4)
    maybe(draw, section, "scale", st.just(0.3), odds=4)
    maybe(draw, section, "clip", st.just(2.0), odds=5)
    maybe(draw, section, "value_scale", st.just(0.7), odds=5)
    maybe(draw, section, "temperature", temperatures, odds=5)
    maybe(draw, section, "log_length", st.integers(2, 6), odds=6)
    maybe(draw, section, "out_norm", out_norms(), odds=6)
    if draw(st.integers(1, 3)) == 1:
        section[draw(st.sampled_from(["window", "chunk"]))] = draw(st.integers(2, 6))
    if draw(st.integers(1, 6)) == 1 and "q_rank" not in section:
        n_experts = draw(st.integers(2, 4))
        section["experts"] = {"n_experts": n_experts, "top_k": draw(st.integers(1, n_experts))}
        section["bias"] = [site for site in section.get("bias", []) if site != "q"]
        for key in ("sinks", "token_sinks", "qk_limit", "gate", "gate_bias", "out_norm", "qk_norm"):
            section.pop(key, None)
        if position == "alibi":
            del section["experts"]
    if not {"experts", "softcap"} & set(section):
        maybe(draw, section, "relative", relative_biases, odds=5)
    if "k_eq_v" not in section:
        maybe(draw, section, "kv_conv", st.integers(2, 4), odds=6)
        if "kv_conv" in section:
            maybe(draw, section, "kv_conv_scaled", st.just(True))
            maybe(draw, section, "kv_conv_token_taps", st.just(True))
    if not {"window", "chunk", "experts", "relative"} & set(section) and position != "alibi":
        maybe(draw, section, "index", block_indexers(d_head), odds=4)
    if (
        not {"window", "chunk", "experts", "relative", "index", "sinks", "token_sinks"} & set(section)
        and position != "alibi"
    ):
        maybe(draw, section, "strided", strides, odds=6)
    if "index" in section:
        section.get("qk_norm", {}).pop("at_read", None)
        if section.get("rope", {}).get("scaling", {}).get("kind") == "proportional":
            del section["rope"]["scaling"]
    return section


relative_biases = st.builds(
    lambda d, extent, limit: {"d": d, "extent": extent, "limit": limit},
    st.integers(2, 4),
    st.integers(2, 6),
    st.sampled_from([None, None, 0.8]),
)


strides = st.builds(
    lambda block, local, stride, by_head: {"block": block, "local": local, "stride": stride, "by_head": by_head},
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.booleans(),
)


@st.composite
def block_indexers(draw: st.DrawFn, d_head: int) -> Document:
    block = draw(st.sampled_from([2, 3]))
    index: Document = {"d": d_head + draw(st.integers(0, 3)), "block": block, "top_k": 2}
    if block == 2 and draw(st.booleans()):
        index |= {"top_k": 3, "local": draw(st.integers(1, 2))}
    maybe(draw, index, "norm", norms())
    return index


@st.composite
def qk_norms(draw: st.DrawFn) -> Document:
    norm = {
        **draw(norms()),
        "over": draw(st.sampled_from(["head", "full", "each"])),
        "after_rope": draw(st.booleans()),
    }
    if norm["after_rope"]:
        maybe(draw, norm, "at_read", st.just(True))
    return norm


@st.composite
def out_norms(draw: st.DrawFn) -> Document:
    return {**draw(norms()), "over": draw(st.sampled_from(["head", "full"]))}


@st.composite
def latents(draw: st.DrawFn, position: str) -> Document:
    d_rope = draw(st.sampled_from([2, 4]))
    section: Document = {
        "n_heads": draw(st.integers(1, 3)),
        "kv_rank": draw(st.sampled_from([3, 7])),
        "d_nope": draw(st.sampled_from([3, 5])),
        "d_rope": d_rope,
        "d_v": draw(st.sampled_from([3, 4])),
    }
    maybe(draw, section, "q_rank", st.integers(3, 9), odds=2)
    sites = ["q_b", "kv_a", "out"] + (["q_a"] if "q_rank" in section else [])
    maybe(draw, section, "bias", st.lists(st.sampled_from(sites), unique=True))
    if position == "rope":
        section["rope"] = draw(ropes(d_rope, partial=False))
    maybe(draw, section, "gate", st.sampled_from(["head", "full"]), odds=4)
    maybe(draw, section, "scale", st.just(0.3), odds=4)
    maybe(draw, section, "q_scale", st.just(1.5), odds=6) if "q_rank" in section else None
    maybe(draw, section, "kv_scale", st.just(1.5), odds=6)
    maybe(draw, section, "ssmax", st.just(True), odds=5)
    if position == "rope" and draw(st.integers(1, 3)) == 1:
        index: Document = {"n_heads": draw(st.integers(1, 3)), "d": d_rope + 4, "top_k": draw(st.integers(2, 6))}
        if "q_rank" not in section:
            index["q_norm"] = draw(norms())
        maybe(draw, index, "ssmax", st.just(True), odds=4)
        section["index"] = index
    if draw(st.integers(1, 6)) == 1:
        section |= {"d_rope": 0, "position": "none"}
        section.pop("rope", None)
        if "index" in section and draw(st.booleans()):
            section["index"] |= {"block": draw(st.integers(2, 3)), "top_k": draw(st.integers(1, 3))}
    elif position == "rope":
        section["position"] = "rope"
    return section


@st.composite
def compressed(draw: st.DrawFn, position: str) -> Document:
    n_groups = draw(st.integers(1, 3))
    section: Document = {
        "n_heads": n_groups * draw(st.integers(1, 2)),
        "d_head": draw(st.sampled_from([4, 6])),
        "q_rank": draw(st.sampled_from([5, 7])),
        "n_groups": n_groups,
        "out_rank": draw(st.integers(2, 4)),
        "window": draw(st.integers(2, 4)),
    }
    if position == "rope":
        section["rope"] = draw(ropes(section["d_head"]))
        section["rope"].pop("scaling", None)
    maybe(draw, section, "sinks", st.just(True))
    if draw(st.integers(1, 4)) > 1:
        compress: Document = {"every": draw(st.integers(2, 4)), "overlap": draw(st.booleans())}
        if compress["every"] == 2:  # entries enough for a choice that every weight of the indexer can change
            index = {"n_heads": draw(st.integers(2, 3)), "d": draw(st.sampled_from([7, 9])), "top_k": 1}
            compress["index"] = index
        section["compress"] = compress
    return section


#: bounds of a gated layer's factors
SOFTCAPS: list[Document] = [{"gate": 0.5, "up": 0.8}, {"gate": 0.7}]


@st.composite
def mlps(draw: st.DrawFn) -> Document:
    activation = draw(st.sampled_from(UNGATED + GATED))
    section: Document = {"activation": activation, "d_ff": draw(st.sampled_from([5, 9, 11]))}
    sites = ["up", "down"] + (["gate"] if activation in GATED else [])
    maybe(draw, section, "bias", st.lists(st.sampled_from(sites), unique=True))
    maybe(draw, section, "mid_norm", norms(), odds=6)
    maybe(draw, section, "out_scale", st.just(True), odds=6)
    if activation == "swiglu_oai":
        section["clamp"] = 7.0
    else:
        maybe(draw, section, "clamp", st.just(3.0), odds=6)
        maybe(draw, section, "clamp_at", st.just("output"))
    if activation == "swiglu" and "clamp" not in section:
        maybe(draw, section, "softcaps", st.sampled_from(SOFTCAPS), odds=6)
    return section


@st.composite
def mixtures(draw: st.DrawFn) -> Document:
    activation = draw(st.sampled_from(["relu", "gelu", *GATED]))
    groups = draw(st.sampled_from([1, 1, 2]))
    n_experts = groups * draw(st.integers(2, 3))
    section: Document = {
        "activation": activation,
        "d_ff": draw(st.sampled_from([5, 7])),
        "n_experts": n_experts,
        "top_k": draw(st.integers(1, n_experts // groups)),
        "router": draw(st.sampled_from(["softmax", "topk_softmax", "sigmoid", "topk_sigmoid", "sqrtsoftplus"])),
    }
    if section["router"] != "topk_softmax":
        section["normalize"] = draw(st.booleans())
    if groups > 1:
        section["groups"] = {"n": groups, "top_k": 1, "score": draw(st.sampled_from(["max", "top2"]))}
    sites = ["up", "down", "router"] + (["gate"] if activation in GATED else [])
    maybe(draw, section, "bias", st.lists(st.sampled_from(sites), unique=True))
    if section["top_k"] > 1 and groups == 1:  # a single weight, normalised, would be 1 whatever the router says
        maybe(draw, section, "choice", st.just("hash"), odds=6)
    if section["top_k"] < n_experts and "choice" not in section:  # else a bias of the choice changes nothing
        maybe(draw, section, "selection_bias", st.just(True))
    maybe(draw, section, "route_scale", st.just(2.5))
    maybe(draw, section, "router_logit_scale", st.just(0.4), odds=6)
    maybe(draw, section, "clamp", st.just(3.0), odds=6)
    maybe(draw, section, "clamp_at", st.just("output"))
    if draw(st.integers(1, 2)) == 1:
        section["n_shared"] = draw(st.integers(1, 2))
        maybe(draw, section, "d_shared", st.just(8))
        maybe(draw, section, "shared_gate", st.just(True))
        if section["router"] == "sigmoid" and section.get("normalize") and not {"shared_gate", "choice"} & set(section):
            maybe(draw, section, "shared_sink", st.just(True), odds=2)
        maybe(draw, section, "shared_clamp", st.just(5.0), odds=6)
    maybe(draw, section, "d_latent", st.just(6), odds=5)
    if "d_latent" in section:
        maybe(draw, section, "latent_norm", norms())
        maybe(draw, section, "latent_out_norm", norms())
    maybe(draw, section, "expert_norm", norms(), odds=6)
    maybe(draw, section, "weight_at", st.just("input"), odds=5)
    maybe(draw, section, "out_bias", st.just(True), odds=6)
    maybe(draw, section, "learned_route_scale", st.just(True), odds=6)
    if activation == "swiglu" and not {"clamp", "shared_clamp"} & set(section):
        maybe(draw, section, "softcaps", st.sampled_from(SOFTCAPS), odds=6)
    return section


def every_document() -> st.SearchStrategy[Document]:
    """A valid document with any kind of sublayer, of a decoder, an encoder or both."""
    return st.one_of(documents(), documents(recurrent=True), encoders())


@st.composite
def documents(draw: st.DrawFn, recurrent: bool = False) -> Document:
    """A valid document of a decoder; `recurrent`: with any kind of mixer, not only those that attend."""
    position = draw(st.sampled_from(["rope", "rope", "rope", "learned", "alibi", "sinusoidal", "none"]))
    document: Document = {
        "name": "drawn",
        "d": draw(st.sampled_from([8, 12, 20])),
        "v": draw(st.sampled_from([17, 23])),
        "c": draw(st.sampled_from([24, 40])),
        "position": position,
        "tying": draw(st.booleans()),
        "norm": draw(st.one_of(norms(), st.sampled_from(["rmsnorm", "layernorm"]))),
        "norm_at": draw(st.sampled_from(["pre", "pre", "sandwich", "output", "post"])),
    }
    pre = document["norm_at"] in ("pre", "sandwich")
    document["parallel_norm"] = draw(st.sampled_from(["shared", "separate"])) if pre else "separate"
    maybe(draw, document, "parallel_out_norm", st.just(True))
    maybe(draw, document, "parallel_scale", st.just(0.7), odds=5)
    maybe(draw, document, "final_norm", st.one_of(st.just(False), norms()), odds=6)
    maybe(draw, document, "softcap", st.just(30.0), odds=5)
    maybe(draw, document, "logit_scale", st.just(0.5), odds=5)
    maybe(draw, document, "residual_scale", st.just(0.6), odds=5)
    maybe(draw, document, "layer_scalar", st.just(True), odds=6)
    maybe(draw, document, "bias", st.just(["head"]), odds=6)
    embedding: Document = {}
    maybe(draw, embedding, "width", st.just(6), odds=6)
    maybe(draw, embedding, "scale", st.sampled_from([2.0, "sqrt(d)"]), odds=4)
    maybe(draw, embedding, "norm", st.one_of(st.just(True), norms()), odds=6)
    if position == "learned":
        maybe(draw, embedding, "offset", st.just(2))
        embedding["rows"] = document["c"] + embedding.get("offset", 0)
    document["embedding"] = embedding
    maybe(draw, document, "per_layer_embedding", st.just({"v": document["v"], "d": 3}), odds=6)
    return draw(with_layers(document, position, recurrent))


@st.composite
def engrams(draw: st.DrawFn) -> Document:
    """N-grams that are looked up."""
    multipliers = draw(st.lists(st.integers(1, 999), min_size=2, max_size=3))
    rows = draw(st.lists(st.integers(2, 9), min_size=1, max_size=2)) * (len(multipliers) - 1)
    hashing: Document = {"rows": rows, "multipliers": multipliers}
    maybe(draw, hashing, "end", st.integers(0, 5))
    table, d_row = sum(rows) + draw(st.integers(0, 3)), draw(st.integers(2, 4))
    size = {"table": table, "d_row": d_row, "kernel": draw(st.integers(2, 4))}
    return {"hashing": hashing, **size, "norm_at": "pre", "residual_scale": 1.0}


@st.composite
def with_layers(draw: st.DrawFn, document: Document, position: str, recurrent: bool) -> Document:
    """Sections, and an expression that uses them all."""
    sections: Document = {}
    mixers, layers = [], []
    for k in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["attn", "attn", "mla", "csa", *(SECTIONS if recurrent else ())]))
        if kind in SECTIONS:
            if kind not in sections:
                sections[kind] = draw(SECTIONS[kind]())
                mixers.append(kind)
            continue
        name = kind if kind not in sections else f"{kind}{k}"
        body = draw({"attn": attentions, "mla": latents, "csa": compressed}[kind](position))
        sections[name] = body if name == kind else {"like": kind, **_fresh(sections[kind], body)}
        mixers.append(name)
    if draw(st.integers(1, 5)) == 1 and "attn" in sections and "experts" not in sections["attn"]:
        sections["reuse"] = {
            "like": "attn",
            "kv": {"from": "attn"},
            "index": None,
            "strided": None,
            "kv_conv": None,
            "kv_conv_scaled": False,
            "kv_conv_token_taps": False,
        }
    forward = {"mlp": mlps(), "moe": mixtures(), **({"channelmix": CHANNEL_MIXING} if recurrent else {})}
    kinds = draw(st.lists(st.sampled_from(list(forward)), min_size=1, max_size=2, unique=True))
    for kind in kinds:
        sections[kind] = draw(forward[kind])
    gated = document["norm_at"] != "post" and draw(st.integers(1, 6)) == 1
    for name in (*mixers, *kinds):
        if document["norm_at"] != "pre":
            maybe(draw, sections[name], "post_norm", norms(), odds=6)
        if gated:
            maybe(draw, sections[name], "residual_gate", st.just({"temperature": 0.5}), odds=2)
    for name in (*mixers, *kinds):
        maybe(draw, sections[name], "out_conv", st.integers(2, 4), odds=8)
        if "out_conv" in sections[name]:
            maybe(draw, sections[name], "out_conv_scaled", st.just(True))
    beside = not gated and draw(st.integers(1, 6)) == 1
    for name in (*mixers, *kinds):
        if beside:
            maybe(draw, sections[name], "laurel", learned_residuals(), odds=2)
    hyper = document["norm_at"] != "post" and not gated and not beside and "per_layer_embedding" not in document
    mixing = hyper and "layer_scalar" not in document and draw(st.integers(1, 6)) == 1
    if mixing:
        document["attention_residuals"] = {"every": draw(st.integers(1, 3))}
        maybe(draw, document["attention_residuals"], "norm", norms(), odds=3)
        if draw(st.booleans()):  # a bias adds the same to every product of a softmax, and moves nothing
            norm = document["attention_residuals"].get("norm", {"kind": "rmsnorm"})
            document["attention_residuals"] |= {
                "values": "raw",
                "norm": norm | ({"bias": False} if norm.get("bias") else {}),
            }
        maybe(draw, document["attention_residuals"], "scale", st.sampled_from([1.0, 0.3]), odds=2)
        maybe(draw, document["attention_residuals"], "first", st.just(True), odds=2)
    hyper = hyper and not mixing and draw(st.integers(1, 4)) == 1
    if hyper:
        document["streams"] = {"n": draw(st.integers(2, 3)), "iterations": draw(st.integers(1, 3))}
        maybe(draw, document["streams"], "end", st.just("mean"), odds=3)
        if draw(st.booleans()):
            document["streams"] |= {"mixed": False, "magnitude": 1.7}
            if "end" not in document["streams"]:
                maybe(draw, document["streams"], "rank", st.integers(2, 5))
    rope = sections[mixers[0]].get("rope")
    if len(mixers) == 1 and rope is not None and rope.get("scaling", {}).get("kind") != "proportional":
        maybe(draw, document, "learned_frequencies", st.just(True), odds=5)
    shapes = ["{m}+{f}", "{m} {f}", "{m}+{f}+{m}+{f}"]
    alone = gated or beside or hyper or mixing  # residuals of a form that parallel units can't share
    if document["norm_at"] != "post" and not alone and draw(st.integers(1, 6)) == 1:
        document["averaged_residuals"] = True
        shapes += ["{m}|{f}"]
    elif document["norm_at"] != "post" and not alone:
        shapes += ["{m}|{f}", "{m}+({f}|{f})", "{m}+({f}+{m}+{f})|{f}"]
    for k, mixer in enumerate(mixers):
        shape = draw(st.sampled_from(shapes))
        layers.append(shape.format(m=mixer, f=kinds[k % len(kinds)]))
    if draw(st.integers(1, 6)) == 1:
        sections["engram"] = draw(engrams())
        layers[0] = f"engram+{layers[0]}"
    used = " ".join(layers)
    layers += [kind for kind in kinds if kind not in used]
    if "reuse" in sections:
        layers.append("reuse+" + kinds[0])
    pattern = " ".join(layers)
    length = len(pattern.split(" "))
    if draw(st.booleans()):
        document["layers"] = f"n*[{pattern}]"
        document["n_layers"] = length + draw(st.integers(0, 1))
    else:
        document["layers"] = pattern
        document["n_layers"] = length
    if "averaged_residuals" not in document and not hyper and not mixing:
        maybe(draw, document, "altup", streams("per_layer_embedding" in document), odds=6)
    if "deltamix" in mixers and draw(st.booleans()):
        sections["mixed"] = {"like": "deltamix", "value_rank": draw(st.integers(2, 4))}
        document["layers"], document["n_layers"] = f"{pattern} {length}*mixed", 2 * length
    one_sum = not {"altup", "averaged_residuals"} & document.keys() and not mixing
    if "reuse" not in sections and one_sum and "mixed" not in sections:
        maybe(draw, document, "mtp", st.integers(1, 2), odds=5)
    if not BESIDE_LAYERS & document.keys() and draw(st.integers(1, 2 if mixing else 5)) == 1:
        document |= draw(loops(document, sections))
    return {**document, **sections}


#: what changes the stream between layers, or comes behind them: not defined where layers run several times
BESIDE_LAYERS = {"per_layer_embedding", "averaged_residuals", "altup", "streams", "mtp", "layer_scalar"}


@st.composite
def loops(draw: st.DrawFn, document: Document, sections: Document) -> Document:
    """Layers that run several times; where sums are mixed and all layers do, some sublayers hear of the last pass."""
    n_layers, mixing = document["n_layers"], "attention_residuals" in document
    if n_layers > 1 and not mixing and draw(st.booleans()):
        speeds: Document = {"fast": draw(st.integers(1, n_layers - 1))}
        return {"speeds": {**speeds, "cycles": draw(st.integers(1, 2)), "fast_cycles": draw(st.integers(1, 3))}}
    first = 0 if mixing else draw(st.integers(0, n_layers - 1))
    layers = draw(st.sampled_from([n_layers - first, n_layers - first, 1]))
    loop: Document = {"first": first, "layers": layers, "passes": draw(st.integers(2, 3))}
    loop["entry"] = "anew" if mixing else draw(st.sampled_from(["on", "anew"]))
    if mixing and document["norm_at"] == "pre" and layers == n_layers and "reuse" not in sections:
        for name in sorted({"attn", "mlp", "moe"} & sections.keys()):
            like = [own for other, own in sections.items() if other.rstrip("0123456789") == name]  # attn1 as attn
            if not any(OF_ONE_INPUT & own.keys() for own in like):
                maybe(draw, sections[name], "messages", st.just({"rank": 3}), odds=2)
        if any("messages" in own for own in sections.values()):  # which are mixed in one way alone
            for key in ("values", "scale"):
                document["attention_residuals"].pop(key, None)
    return {"loop": loop}


#: what is made of the input that queries, keys and values share
OF_ONE_INPUT = {"experts", "index", "k_eq_v", "q_rank"}


@st.composite
def encoders(draw: st.DrawFn) -> Document:
    """A valid document whose tokens see all others, alone or in front of a decoder."""
    position = draw(st.sampled_from(["rope", "learned", "none"]))
    document: Document = {
        "name": "drawn", "d": draw(st.sampled_from([8, 12])), "v": draw(st.sampled_from([17, 23])), "c": 24,
        "n_heads": 2, "n_layers": draw(st.integers(1, 2)), "d_ff": draw(st.sampled_from([5, 9])),
        "mlp": draw(st.sampled_from(["relu", "gelu", "geglu", "swiglu"])), "position": position,
        "norm": draw(st.sampled_from(["rmsnorm", "layernorm"])),
        "norm_at": draw(st.sampled_from(["pre", "post", "output", "sandwich"])), "tying": draw(st.booleans()),
        "bias": draw(st.sampled_from(["none", "all", ["qkv", "mlp"]])),
    }  # fmt: skip
    maybe(draw, document, "final_norm", st.just(False))
    embedding: Document = {}
    maybe(draw, embedding, "norm", st.just(True))
    maybe(draw, embedding, "types", st.just(2))
    document["embedding"] = embedding
    attn: Document = {}
    if draw(st.booleans()):
        return draw(beside_a_decoder(document, attn))
    document["causal"] = False
    maybe(draw, attn, "window", st.integers(2, 4))
    if position == "none" and draw(st.booleans()):
        attn = {"disentangled": {"span": draw(st.integers(3, 5)), "own": draw(st.booleans())}}
    pooler: Document = {"token": draw(st.sampled_from(["first", "last", "each"])), "labels": draw(st.integers(0, 3))}
    if pooler["labels"] == 0:
        pooler |= {"token": "first", "dense": {"function": "tanh"}}
    maybe(draw, document, "head", st.sampled_from([
        {"dense": {"function": "gelu"}}, {"vocabulary": False}, {"vocabulary": False, "pooler": pooler},
    ]), odds=2)  # fmt: skip
    if not document.get("head", {}).get("vocabulary", True):
        document["tying"] = False
        document["bias"] = "none" if document["bias"] == "all" else document["bias"]
    if draw(st.booleans()):
        document["norm_at"] = "post"
        function = draw(st.sampled_from(["gelu", "tanh"]))
        document["embconv"] = {"kernel": draw(st.sampled_from([1, 3])), "function": function}
        document |= {"layers": "attn+mlp+embconv n*attn+mlp", "n_layers": document["n_layers"] + 1}
    return {**document, "attn": attn}


@st.composite
def beside_a_decoder(draw: st.DrawFn, document: Document, attn: Document) -> Document:
    """An encoder's tokens read by a decoder."""
    if document["position"] == "none" and draw(st.booleans()):
        attn["buckets"] = {"n": 4, "max_distance": 6, "shared": draw(st.booleans())}
    encoder: Document = {"n_layers": draw(st.integers(1, 2)), "tokens": draw(st.sampled_from(["shared", "own"]))}
    if encoder["tokens"] == "own":
        maybe(draw, encoder, "d", st.just(16))
    document["embedding"].pop("types", None)
    cross: Document = {}
    maybe(draw, cross, "scale", st.just(0.7))
    return {**document, "layers": "n*attn+cross+mlp", "attn": attn, "cross": cross, "encoder": encoder}


@st.composite
def learned_residuals(draw: st.DrawFn) -> Document:
    residual: Document = {"rank": draw(st.integers(2, 4))}
    maybe(draw, residual, "norm", norms())
    return residual


@st.composite
def streams(draw: st.DrawFn, scalable: bool) -> Document:
    n = draw(st.integers(2, 3))
    altup: Document = {"n": n, "active": draw(st.integers(0, n - 1)), "scale": scalable and draw(st.booleans())}
    maybe(draw, altup, "norm", norms())
    return altup


def _fresh(base: Document, body: Document) -> Document:
    """The keys of a section that is like another: those of the other that it doesn't set must not remain."""
    off: Document = {"bias": [], "window": None, "chunk": None, "qk_norm": None, "v_norm": None, "q_rank": None}
    off |= {"sinks": False, "gate": None, "softcap": None, "scale": None, "clip": None, "value_scale": 1.0}
    off |= {"temperature": None, "out_norm": None, "experts": None, "k_eq_v": False, "index": None, "strided": None}
    off |= {"compress": "none"}
    off |= {"ssmax": False, "q_scale": 1.0, "kv_scale": 1.0, "log_length": None, "gate_bias": False}
    off |= {"relative": None, "kv_conv": None, "kv_conv_scaled": False, "kv_conv_token_taps": False}
    off |= {"token_sinks": False, "qk_limit": None}
    if "d_head" in base:
        off["d_v"] = body["d_head"]
    return {**{key: value for key, value in off.items() if key in base}, **body}
