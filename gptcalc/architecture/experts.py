"""Mixtures of experts."""

from typing import Literal, TypeAlias

from gptcalc.architecture.base import Count, Positive, Size, Strict
from gptcalc.architecture.mlp import ActivationName, ClampAt
from gptcalc.architecture.norms import Norm
from gptcalc.architecture.sublayer import Sublayer
from gptcalc.errors import InputError

ExpertSite: TypeAlias = Literal["gate", "up", "down", "router", "shared"]


class ExpertGroups(Strict, frozen=True, kw_only=True):
    """Routing in two steps: the top_k groups of experts first, each scored by its best or its two best experts."""

    n: Size
    top_k: Size
    score: Literal["max", "top2"] = "max"


class Experts(Sublayer, tag_field="sublayer", tag="experts", frozen=True, kw_only=True):
    """A mixture of experts: a router chooses top_k of n_experts for each token; shared experts see every token."""

    n_experts: Size
    top_k: Size
    d_ff: Size
    activation: ActivationName
    n_shared: Count = 0
    d_shared: Count = 0  # width of all shared experts together; default n_shared · d_ff
    shared_gate: bool = False
    router: Literal["softmax", "topk_softmax", "sigmoid", "topk_sigmoid", "sqrtsoftplus", "sparsemixer"] = "softmax"
    selection_bias: bool = False
    hash: bool = False  # a fixed table, not learned, chooses by the token's number; the router weighs only
    normalize: bool = True  # the chosen weights divided by their sum
    route_scale: float = 1.0
    groups: ExpertGroups | None = None
    bias: tuple[ExpertSite, ...] = ()
    clamp: Positive | None = None
    clamp_at: ClampAt = "input"
    shared_clamp: Positive | None = None  # another clamp for the shared experts
    d_latent: Size | None = None  # experts work in a projection of this width
    latent_norm: Norm | None = None  # a norm of that projection
    expert_norm: Norm | None = None  # a norm of each expert's output, one weight for all experts (Muse Spark)
    n_identity: Count = 0  # further experts that return their input, without weights
    weight_at: Literal["output", "input"] = "output"  # the router's weight multiplies what comes out or what goes in
    router_scale: bool = False  # learned scales: d on the router's normed input, one an expert (Gemma 4)
    out_bias: bool = False  # one bias of width d after the experts' sum (JetMoE)
    shared_sink: bool = False  # the router weighs the shared experts too; with the chosen ones their weights sum to 1
    learned_route_scale: bool = False  # one learned factor more
    router_logit_scale: float = 1.0
    router_softcap: Positive | None = None
    jitter: float = 0.01  # sparsemixer's threshold

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.section
        if self.latent_norm is not None and self.d_latent is None:
            raise InputError(f"{name}.latent_norm: the experts work at full width (d_latent)")
        if self.shared_clamp is not None and not self.n_shared:
            raise InputError(f"{name}.shared_clamp: there is no shared expert (n_shared)")
        choices = self.n_experts + self.n_identity
        if self.top_k > choices:
            raise InputError(f"{name}: top_k = {self.top_k} exceeds n_experts = {choices}")
        if self.hash and (self.selection_bias or self.groups is not None or self.n_identity):
            which = "selection_bias" if self.selection_bias else "groups" if self.groups is not None else "n_identity"
            raise InputError(f"{name}.hash: the table chooses the experts, so {which} would be ignored")
        if self.hash and self.router == "sparsemixer":
            raise InputError(f"{name}.hash: not defined for router 'sparsemixer', which weighs what it chooses itself")
        if self.shared_sink:
            self._check_sink()
        if self.shared_gate and not self.n_shared:
            raise InputError(f"{name}.shared_gate: there is no shared expert (n_shared)")
        if self.groups is not None:
            self._check_groups(self.groups, choices)

    def _check_sink(self) -> None:
        name = f"{self.section}.shared_sink"
        if self.router != "sigmoid" or not self.normalize:
            raise InputError(f"{name}: needs router: sigmoid and normalize: true")
        if not self.n_shared or self.d_shared % self.n_shared:
            raise InputError(f"{name}: needs shared experts (n_shared), equally wide")
        others = {
            "shared_gate": self.shared_gate,
            "n_identity": self.n_identity,
            "hash": self.hash,
            "router_scale": self.router_scale,
        }
        for key, used in others.items():
            if used:
                raise InputError(f"{name}: not defined with {key}")

    def _check_groups(self, groups: ExpertGroups, choices: int) -> None:
        name = f"{self.section}.groups"
        if choices % groups.n:
            raise InputError(f"{name}.n: {groups.n} groups do not divide {choices} experts")
        if groups.top_k > groups.n:
            raise InputError(f"{name}: top_k = {groups.top_k} exceeds n = {groups.n}")
        if groups.top_k * (choices // groups.n) < self.top_k:
            raise InputError(f"{name}: {groups.top_k} groups hold fewer than top_k = {self.top_k} experts")
