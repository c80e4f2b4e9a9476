"""What a model IS: frozen, typed, validated. The only thing that every other room knows.

Every default is filled in and every section resolved (`document` does that, from the keys of a preset file);
equal blocks are counted, not listed. Nothing about cost is computed here, nothing is inferred from a model's name.
"""

from gptcalc.architecture.altup import AltUp
from gptcalc.architecture.attention import Attention, AttentionExperts, AttentionSite, BlockIndexer, RelativeBias
from gptcalc.architecture.base import Count, Depth, Kernel, Positive, Size, Strict
from gptcalc.architecture.compressed import CompressedAttention, Compression, EntryIndexer
from gptcalc.architecture.experts import ExpertGroups, Experts, ExpertSite
from gptcalc.architecture.hyper import Streams
from gptcalc.architecture.latent import Indexer, LatentAttention, LatentSite
from gptcalc.architecture.mlp import ACTIVATIONS, Activation, ActivationName, ClampAt, Mlp, MlpSite
from gptcalc.architecture.model import (
    MTP,
    PREFIX,
    Architecture,
    Block,
    Dropout,
    Embedding,
    Head,
    Mixer,
    Part,
    PerLayerEmbedding,
    Repeat,
    pairs_turned,
    sublayers,
)
from gptcalc.architecture.norms import Norm, OutNorm, QKNorm
from gptcalc.architecture.prefix import Prefix, Prefixes
from gptcalc.architecture.rope import (
    NTK,
    Dynamic,
    Linear,
    Llama3,
    LongRope,
    Proportional,
    Rope,
    Scaling,
    Temperature,
    Yarn,
    rotated,
)
from gptcalc.architecture.sublayer import KV, LowRankResidual, NormAt, ResidualGate, Sublayer

__all__ = [
    "ACTIVATIONS",
    "KV",
    "MTP",
    "NTK",
    "PREFIX",
    "Activation",
    "ActivationName",
    "AltUp",
    "Architecture",
    "Attention",
    "AttentionExperts",
    "AttentionSite",
    "Block",
    "BlockIndexer",
    "ClampAt",
    "CompressedAttention",
    "Compression",
    "Count",
    "Depth",
    "Dropout",
    "Dynamic",
    "Embedding",
    "EntryIndexer",
    "ExpertGroups",
    "ExpertSite",
    "Experts",
    "Head",
    "Indexer",
    "Kernel",
    "LatentAttention",
    "LatentSite",
    "Linear",
    "Llama3",
    "LongRope",
    "LowRankResidual",
    "Mixer",
    "Mlp",
    "MlpSite",
    "Norm",
    "NormAt",
    "OutNorm",
    "Part",
    "PerLayerEmbedding",
    "Positive",
    "Prefix",
    "Prefixes",
    "Proportional",
    "QKNorm",
    "RelativeBias",
    "Repeat",
    "ResidualGate",
    "Rope",
    "Scaling",
    "Size",
    "Streams",
    "Strict",
    "Sublayer",
    "Temperature",
    "Yarn",
    "pairs_turned",
    "rotated",
    "sublayers",
]
