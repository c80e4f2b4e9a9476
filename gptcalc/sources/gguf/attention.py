"""Attention of a GGUF file's layers: grouped or latent, windows, reuse, rotation."""

from __future__ import annotations

from typing import Any

from gptcalc.sources.gguf.metadata import Facts
from gptcalc.sources.gguf.recurrent import mixer
from gptcalc.sources.gguf.styles import Style

SCALINGS = {"linear": "linear", "yarn": "yarn"}


class Mixers:
    """The mixers of a file's layers."""

    def __init__(self, facts: Facts, style: Style) -> None:
        self.facts = facts
        self.style = style
        n, d = facts.n_layers, facts.size("embedding_length")
        self.n_heads = facts.each("attention.head_count", 0)
        self.n_kv_heads = [k or h for k, h in zip(self._kv_heads(), self.n_heads, strict=True)]
        most = max(self.n_heads) or 1
        self.d_head = facts.size("attention.key_length", max(1, d // most) if d % most == 0 else None)
        self.d_v = facts.size("attention.value_length", self.d_head)
        window = facts.size("attention.sliding_window", 0, least=0)
        self.window = (window // 2 + 1 if style.both_sides else window) or None
        self.windowed = self._windowed()
        shared = facts.size("attention.shared_kv_layers", 0, least=0, most=n - 1)
        self.first_shared = n - shared

    def _kv_heads(self) -> list[int]:
        if self.facts.value("attention.head_count_kv") is None:
            return [0] * self.facts.n_layers
        return self.facts.each("attention.head_count_kv")

    def _windowed(self) -> list[bool]:
        """Which layers see a window (or a chunk) only."""
        facts, n = self.facts, self.facts.n_layers
        pattern = facts.value("attention.sliding_window_pattern")
        if self.window is None and self.style.chunk is None:
            return [False] * n
        if isinstance(pattern, list):
            if len(pattern) not in (n, facts.blocks):
                facts.wrong("attention.sliding_window_pattern", f"{n} entries", f"{len(pattern)} of them")
            return [bool(entry) for entry in pattern[:n]]
        every = facts.optional("attention.sliding_window_pattern", least=0)
        every = self.style.every if every is None else every
        full = 0 if self.style.full_first else -1
        return [not every or (i - full) % every != 0 for i in range(n)]

    def of(self, layer: int) -> list[dict[str, Any]]:
        """The mixers of a layer, side by side; none where a search has taken it away (Nemotron)."""
        has = self.facts.has
        found = []
        recurrent = mixer(self.facts, self.style, layer)
        if recurrent is not None:
            found.append(recurrent)
        if has(layer, "attn_kv_a_mqa"):
            return [self.latent(layer)]
        parallel = recurrent is None or recurrent["kind"] == "mamba2"  # a delta rule's projections are called alike
        if parallel and (has(layer, "attn_q") or has(layer, "attn_qkv")):
            return [self.attention(layer), *found]
        return found

    # grouped

    def attention(self, layer: int) -> dict[str, Any]:
        facts, style = self.facts, self.style
        local = self.windowed[layer]
        d_head = facts.size("attention.key_length_swa", self.d_head) if local else self.d_head
        d_v = facts.size("attention.value_length_swa", self.d_v) if local else self.d_v
        rotates = self.rotates(layer)
        kv = self.owner(layer)
        chunk = style.chunk if local else None
        return {
            "kind": "attn",
            "word": self.word(layer, rotates, kv),
            "n_heads": self.n_heads[layer],
            "n_kv_heads": self.n_kv_heads[layer],
            "d_head": d_head,
            "d_v": d_v,
            **self.norms(layer),
            "bias": self.biases(layer),
            "position": "rope" if rotates else "alibi" if self.has_alibi() else "none",
            "rope": self.rope(d_head, local) if rotates else None,
            "window": self.window if local and chunk is None else None,
            "chunk": chunk,
            "qk_norm": self.qk_norm(layer, d_head, rotates),
            "v_norm": self.v_norm(),
            "k_eq_v": kv is None and not facts.has(layer, "attn_v") and not facts.has(layer, "attn_qkv"),
            "kv": None if kv is None else {"from": kv},
            "sinks": facts.has(layer, "attn_sinks"),
            "gate": self.gate(layer),
            "out_norm": {} if facts.has(layer, "attn_sub_norm") else None,
            "softcap": facts.number("attn_logit_softcapping") or None,
            "scale": facts.number("attention.scale", style.scale) or None,
            "clip": facts.number("attention.clamp_kqv") or None,
            "laurel": {"rank": facts.width(layer, "laurel_l", 0)} if facts.has(layer, "laurel_l") else None,
        }

    def word(self, layer: int, rotates: bool, kv: str | None) -> str:
        local = self.windowed[layer] and any(not windowed for windowed in self.windowed)
        kind = ("chunk" if self.style.chunk else "local") if local else "attn"
        mixed = any(self.rotates(i) for i in range(self.facts.n_layers))
        if kind == "attn" and not rotates and mixed:
            kind = "nope"
        if self.norms(layer)["norm"] is not None:
            kind = "first"
        return kind if kv is None else "reuse" if kind == "attn" else f"{kind}_reuse"

    def owner(self, layer: int) -> str | None:
        """Whose keys and values a layer reuses: those of the last layer of its kind that makes some."""
        return self.word(layer, True, None) if layer >= self.first_shared else None

    def rotates(self, layer: int) -> bool:
        facts, style = self.facts, self.style
        if facts.whole("position_embd") is not None or self.has_alibi() or not style.positions:
            return False
        if style.by_finetuned and not facts.flag("rope.scaling.finetuned", True):
            return False
        if style.nope_every and (layer + 1) % style.nope_every == 0:
            return False
        if not style.full_rotates and any(self.windowed) and not self.windowed[layer]:
            return False
        return facts.optional("rope.dimension_count", least=0) != 0

    def has_alibi(self) -> bool:
        by_depth = self.style.alibi_layers == self.facts.n_layers
        return self.style.alibi or by_depth or bool(self.facts.number("attention.max_alibi_bias"))

    def norms(self, layer: int) -> dict[str, Any]:
        """Where a mixer's norms stand."""
        has = self.facts.has
        before = has(layer, "attn_norm")
        behind = has(layer, "attn_output_norm") or (
            has(layer, "post_attention_norm") and (has(layer, "ffn_norm") or has(layer, "post_ffw_norm"))
        )
        bare = not before and not behind and not self.facts.unweighted()  # the first layer of ModernBERT
        return {"norm_at": norm_at(before, behind, self.style.post), "norm": "none" if bare else None}

    def biases(self, layer: int) -> list[str]:
        has = self.facts.has
        fused = has(layer, "attn_qkv", "bias")
        sites = [site for site in "qkv" if fused or has(layer, f"attn_{site}", "bias")]
        return [*sites, "out"] if has(layer, "attn_output", "bias") else sites

    def qk_norm(self, layer: int, d_head: int, rotates: bool) -> dict[str, Any] | None:
        shape = self.facts.shape(layer, "attn_q_norm")
        if shape is None:
            return {"weight": False, "after_rope": True} if self.style.bare_qk_norm and rotates else None
        bias = {"bias": self.facts.has(layer, "attn_q_norm", "bias")}
        after = {"after_rope": True} if self.style.norm_after_rope else {}
        over = "each" if len(shape) > 1 else "head" if shape[-1] == d_head else "full"
        return {"over": over, **bias, **after}

    def v_norm(self) -> dict[str, Any] | None:
        if not self.style.v_norm:
            return None
        return {"weight": False, "eps": self.facts.number("attention.layer_norm_rms_epsilon", 1e-6)}

    def gate(self, layer: int) -> str | None:
        facts = self.facts
        shape = facts.shape(layer, "attn_gate")
        if shape is None:
            both = 2 * self.n_heads[layer] * self.d_head  # queries and gates in one matrix
            return "full" if facts.has(layer, "attn_q") and facts.width(layer, "attn_q", 0) == both else None
        return "head" if shape[0] == self.n_heads[layer] else "full"

    # rotation

    def rope(self, d_head: int, local: bool) -> dict[str, Any]:
        facts = self.facts
        turned = facts.size("rope.dimension_count", d_head)
        theta = facts.number("rope.freq_base", 10000.0)
        scaling = self.scaling()
        if local:
            turned = facts.size("rope.dimension_count_swa", min(turned, d_head))
            default = theta if self.style.local_theta is None else self.style.local_theta
            theta = facts.number("rope.freq_base_swa", default)
            scaling = scaling if self.style.local_theta is None else None
        return {
            "theta": theta,
            **({"channels": turned} if turned != d_head else {}),
            "pairing": "adjacent" if self.style.adjacent else "half",
            **({"scaling": scaling} if scaling else {}),
        }

    def scaling(self) -> dict[str, Any] | None:
        facts = self.facts
        kind, factor = facts.value("rope.scaling.type"), facts.number("rope.scaling.factor")
        if kind not in SCALINGS or not factor or factor == 1:
            return None
        if kind == "linear":
            return {"kind": "linear", "factor": factor}
        original = facts.size("rope.scaling.original_context_length", facts.size("context_length"))
        beta = {
            key: facts.number(f"rope.scaling.yarn_{key}")
            for key in ("beta_fast", "beta_slow")
            if facts.value(f"rope.scaling.yarn_{key}") is not None
        }
        return {"kind": "yarn", "factor": factor, "original": original, **beta}

    # latent

    def latent(self, layer: int) -> dict[str, Any]:
        facts = self.facts
        rank = facts.size("attention.kv_lora_rank")
        d_rope = facts.size("rope.dimension_count")
        whole = facts.size("attention.key_length_mla", self.d_head)
        if whole <= d_rope:
            facts.wrong("attention.key_length", f"more than the {d_rope} channels that turn", whole)
        queries = facts.has(layer, "attn_q_a")
        return {
            "kind": "mla",
            "word": "mla",
            "n_heads": self.n_heads[layer],
            "q_rank": facts.size("attention.q_lora_rank") if queries else None,
            "kv_rank": rank,
            "d_nope": whole - d_rope,
            "d_rope": d_rope,
            "d_v": facts.size("attention.value_length_mla", self.d_v),
            "position": "rope" if self.style.positions else "none",
            "rope": self.rope(d_rope, False) if self.style.positions else None,
            "index": self.index() if facts.has(layer, "indexer.attn_k") else None,
            "gate": self.gate(layer) if facts.has(layer, "attn_gate") else None,
            **self.norms(layer),
        }

    def index(self) -> dict[str, Any]:
        """The small heads that choose which keys are attended to."""
        sizes = {"n_heads": "head_count", "d": "key_length", "top_k": "top_k"}
        pairing = {"pairing": "adjacent"} if self.style.adjacent_index else {}
        return {**{key: self.facts.size(f"attention.indexer.{name}") for key, name in sizes.items()}, **pairing}


def norm_at(before: bool, behind: bool, post: bool) -> str:
    return {(True, True): "sandwich", (False, True): "post" if post else "output"}.get((before, behind), "pre")
