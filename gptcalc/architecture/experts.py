"""Mixtures of experts, and the routers that choose among them."""

from typing import Annotated, Literal, TypeAlias

from msgspec import field

from gptcalc.architecture.base import (
    AtMost,
    Choices,
    Count,
    Flat,
    Inherited,
    Inner,
    Narrow,
    OrNone,
    Positive,
    Size,
    Small,
    Strict,
    exclude,
)
from gptcalc.architecture.mlp import ClampAt, ModelActivation, Softcaps, check_softcaps
from gptcalc.architecture.norms import BareNorm, ModelNorm, Norm
from gptcalc.architecture.sublayer import Sublayer
from gptcalc.errors import InputError

ExpertSite: TypeAlias = Literal["gate", "up", "down", "router", "shared"]


class ExpertGroups(Strict, frozen=True, kw_only=True):
    """Routing in two steps: the top_k groups of experts first, each scored by its best or its two best experts."""

    n: Annotated[Size, AtMost(3)]  # groups of experts
    top_k: Choices  # groups of one token
    score: Literal["max", "top2"] = "max"  # a group counts as its best expert, or as its two best


class Best(Strict, tag_field="choice", tag="best", frozen=True, kw_only=True):
    """The experts of the largest scores, a learned bias added for the choice alone (arXiv:2408.15664)."""

    selection_bias: bool = False  # a learned bias an expert, for the choice alone
    groups: ExpertGroups | None = None


class Hash(Strict, tag_field="choice", tag="hash", frozen=True, kw_only=True):
    """Those that a fixed table, not learned, has for the token's number (arXiv:2106.04426); the router weighs only."""


Choice: TypeAlias = Best | Hash


class InputScales(Strict, frozen=True, kw_only=True):
    """Learned scales: d on what the router reads, the stream normed anew, and one on each expert's weight (Gemma 4)."""

    norm: BareNorm


class RouterLayers(Strict, frozen=True, kw_only=True):
    """A router of several layers: a projection to d channels, a norm, two layers with a GELU, the logits (ZAYA).

    carried: what the projection makes has that of the router before added, times a learned factor a channel.
    """

    d: Narrow  # channels of the router's layers
    norm: ModelNorm
    carried: bool = False


class RouterFields(Strict, frozen=True, kw_only=True):
    """What all routers have: how their logits are made, and what all weights are multiplied by."""

    logit_scale: float = field(default=1.0, name="router_logit_scale")  # factor of the router's logits
    # the router's logits x become softcap·tanh(x / softcap)
    softcap: Positive | None = field(default=None, name="router_softcap")
    scales: InputScales | None = field(default=None, name="router_scale")
    layers: RouterLayers | None = field(default=None, name="router_layers")
    # logits by attention among the experts, each with a number for query, key and value (arXiv:2405.17976)
    attention: bool = field(default=False, name="router_attention")
    scale: float = field(default=1.0, name="route_scale")  # factor of the chosen experts' weights
    learned_scale: bool = field(default=False, name="learned_route_scale")  # one factor more

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class Softmax(RouterFields, tag_field="router", tag="softmax", frozen=True, kw_only=True):
    """Scores by a softmax over all experts (arXiv:1701.06538); `normalize`: the chosen divided by their sum."""

    choice: Flat[Choice] = Best()  # which experts a token gets
    normalize: bool = True


class TopkSoftmax(RouterFields, tag_field="router", tag="topk_softmax", frozen=True, kw_only=True):
    """Weights by a softmax over the logits of the chosen experts alone (Mixtral, arXiv:2401.04088)."""

    choice: Flat[Choice] = Best()  # which experts a token gets


class Sigmoid(RouterFields, tag_field="router", tag="sigmoid", frozen=True, kw_only=True):
    """Scores expert by expert (DeepSeek-V3, arXiv:2412.19437).

    sink: the shared experts are weighed, too, and with the chosen ones their weights sum to 1 (Inkling).
    """

    choice: Flat[Choice] = Best()  # which experts a token gets
    normalize: bool = True  # the chosen weights are divided by their sum
    sink: bool = field(default=False, name="shared_sink")


class TopkSigmoid(RouterFields, tag_field="router", tag="topk_sigmoid", frozen=True, kw_only=True):
    """The experts of the largest logits, weighted by their sigmoids (Llama 4)."""

    choice: Flat[Choice] = Best()  # which experts a token gets
    normalize: bool = True  # the chosen weights are divided by their sum


class SqrtSoftplus(RouterFields, tag_field="router", tag="sqrtsoftplus", frozen=True, kw_only=True):
    """Scores √softplus(logit) (DeepSeek-V4)."""

    choice: Flat[Choice] = Best()  # which experts a token gets
    normalize: bool = True  # the chosen weights are divided by their sum


class SparseMixer(RouterFields, tag_field="router", tag="sparsemixer", frozen=True, kw_only=True):
    """Experts one after the other, each weighted by a softmax over those within a margin (arXiv:2409.12136)."""

    jitter: float = 0.01  # the margin, as a share


Router: TypeAlias = Softmax | TopkSoftmax | Sigmoid | TopkSigmoid | SqrtSoftplus | SparseMixer


class SharedExperts(Strict, frozen=True, kw_only=True):
    """Experts that every token passes, side by side one dense layer of their joint width."""

    n: Annotated[OrNone, AtMost(2)] = field(name="n_shared")  # shared experts
    d_ff: Annotated[OrNone, Small(5)] = field(name="d_shared")  # of all together; default n · the routed experts' width
    gate: bool = field(default=False, name="shared_gate")  # σ of one number a token
    clamp: Positive | Literal["none"] | None = field(default=None, name="shared_clamp")  # if not the routed experts'


class LatentExperts(Strict, frozen=True, kw_only=True):
    """Routed experts work in a projection of the stream; what they read, and the sum of what they make, are normed
    where norms are given (Muse Spark; Kimi K3, arXiv:2607.24653)."""

    d: Inner = field(name="d_latent")  # channels of what routed experts read and write
    norm: Norm | None = field(default=None, name="latent_norm")
    out_norm: Norm | None = field(default=None, name="latent_out_norm")  # of their sum


class Experts(Sublayer, tag_field="sublayer", tag="experts", frozen=True, kw_only=True):
    """A mixture of experts: a router chooses top_k of n_experts for each token; shared experts see every token.

    tokens: which tokens the router sends to its experts: all; or those of text alone, or those of images alone, where
    two mixtures stand side by side (ERNIE 4.5 VL). What is counted of a pass is a text's.
    """

    n_experts: Annotated[Size, Small(4)]  # routed experts: num_experts
    top_k: Choices  # experts of one token: num_experts_per_tok
    d_ff: Inherited[Inner]  # channels inside an expert: moe_intermediate_size
    activation: ModelActivation  # the experts' nonlinearity
    router: Flat[Router] = Softmax()  # how logits become the weights of the chosen experts
    shared: Flat[SharedExperts | None] = None
    latent: Flat[LatentExperts | None] = None
    bias: tuple[ExpertSite, ...] = ()  # which projections have a bias
    clamp: Positive | None = None  # what goes through the activation is clamped to this
    clamp_at: ClampAt = "input"  # before the activation or after it
    softcaps: Softcaps | None = None
    expert_norm: Norm | None = None  # a norm of each expert's output, one weight for all experts (Muse Spark)
    n_identity: Annotated[Count, AtMost(1)] = 0  # further experts that return their input, without weights
    identity: Literal["input", "nothing"] = "input"  # or that return nothing
    weight_at: Literal["output", "input"] = "output"  # the router's weight multiplies what comes out or what goes in
    out_bias: bool = False  # one bias of width d after the experts' sum (JetMoE)
    tokens: Literal["all", "text", "images"] = "all"

    @property
    def shared_clamp(self) -> float | None:
        """The clamp of the shared experts: their own or the routed experts'."""
        own = self.shared.clamp if self.shared is not None else None
        return None if isinstance(own, str) else own or self.clamp

    @property
    def choice(self) -> Choice | None:
        """How the router chooses; None where it chooses and weighs in one."""
        return None if isinstance(self.router, SparseMixer) else self.router.choice

    @property
    def selection_bias(self) -> bool:
        return isinstance(self.choice, Best) and self.choice.selection_bias

    @property
    def groups(self) -> ExpertGroups | None:
        return self.choice.groups if isinstance(self.choice, Best) else None

    @property
    def normalize(self) -> bool:
        """Whether the chosen experts' weights are divided by their sum."""
        return not isinstance(self.router, (TopkSoftmax, SparseMixer)) and self.router.normalize

    @property
    def sink(self) -> SharedExperts | None:
        """The shared experts where the router weighs them, too."""
        return self.shared if isinstance(self.router, Sigmoid) and self.router.sink else None

    def __post_init__(self) -> None:
        super().__post_init__()
        name, choices = self.section, self.n_experts + self.n_identity
        if self.top_k > choices:
            raise InputError(f"{name}: top_k = {self.top_k} exceeds n_experts = {choices}")
        if isinstance(self.choice, Hash) and self.n_identity:
            raise InputError(f"{name}.choice: the table chooses the experts, so n_identity would be ignored")
        if isinstance(self.router, Sigmoid) and self.router.sink:
            self._check_sink(self.router)
        if self.router.attention:
            others = {"bias": "router" in self.bias, "shared_sink": self.sink is not None}
            exclude(f"{name}.router_attention", others)
        if self.softcaps is not None:
            check_softcaps(name, self.activation, self.clamp or self.shared_clamp)
        if self.groups is not None:
            self._check_groups(self.groups, choices)
        if self.tokens != "all":
            self._check_apart()

    def _check_apart(self) -> None:
        """What a router that sees some of the tokens alone goes with."""
        others = {
            "shared_sink": self.sink is not None,
            "router_scale": self.router.scales is not None,
            "router_layers": self.router.layers is not None,
            "choice: hash": isinstance(self.choice, Hash),
            "n_identity": self.n_identity,
        }
        exclude(f"{self.section}.tokens: {self.tokens}", others)

    def _check_sink(self, router: Sigmoid) -> None:
        name, shared = f"{self.section}.shared_sink", self.shared
        if not router.normalize:
            raise InputError(f"{name}: needs router: sigmoid and normalize: true")
        if shared is None or shared.d_ff % shared.n:
            raise InputError(f"{name}: needs shared experts (n_shared), equally wide")
        others = {
            "shared_gate": shared.gate,
            "n_identity": self.n_identity,
            "choice: hash": isinstance(self.choice, Hash),
            "router_scale": router.scales is not None,
        }
        exclude(name, others)

    def _check_groups(self, groups: ExpertGroups, choices: int) -> None:
        name = f"{self.section}.groups"
        if choices % groups.n:
            raise InputError(f"{name}.n: {groups.n} groups do not divide {choices} experts")
        if groups.top_k > groups.n:
            raise InputError(f"{name}: top_k = {groups.top_k} exceeds n = {groups.n}")
        if groups.top_k * (choices // groups.n) < self.top_k:
            raise InputError(f"{name}: {groups.top_k} groups hold fewer than top_k = {self.top_k} experts")
