"""How a model is run: lengths, types, phase, engine, devices. Each option, its choices and its default stand here once.

The command line makes its options from these structs, the Python API its keyword arguments, and the analyses read them.
They are checked when they are made: a wrong value is an InputError that names the option. A further option is a further
field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from gptcalc.errors import InputError, NoPosition, did_you_mean, is_count, printable
from gptcalc.options import Option, check_fields

if TYPE_CHECKING:
    from fractions import Fraction

    from gptcalc.architecture import Architecture

    Share: TypeAlias = int | float | Fraction
else:
    Share = object  # fractions are slow to import; who uses a share checks it

Phase = Literal["prefill", "decode", "train"]
Pass = Literal["prefill", "decode"]
Pairing = Literal["causal", "full"]
Logits = Literal["all", "last"]
#: what latent attention multiplies with: latents, or the keys and values made of them
Form = Literal["absorbed", "expanded"]
CacheForm = Literal["latent", "expanded"]
Engine = Literal["ideal", "vllm", "sglang", "llama.cpp", "transformers"]
ZeroStage = Literal[0, 1, 2, 3]
Offload = Literal["none", "optimizer", "parameters"]
Recompute = Literal["none", "selective", "operators", "full"]
Kernel = Literal["flash", "eager"]
Switch = Literal["on", "off"]
GradientType = Literal["fp32", "bf16"]


# --- the options ------------------------------------------------------------------------------------------------------

Batch: TypeAlias = Annotated[int, Option("Sequences.", also=("--batch-size",))]
Context: TypeAlias = Annotated[
    int | None,
    Option(
        "Length of a sequence including the newest token: 8192, 8K (8192), 8k (8000). Default: the model's c.",
        also=("--max-model-len", "--ctx-size"),
    ),
]
Source: TypeAlias = Annotated[
    int | None,
    Option("Length of the sequence that an encoder reads. Default: the context; of sound and images the model's own."),
]
PhaseOption: TypeAlias = Annotated[
    Phase, Option("A prompt, one more token, or a training step (3 × the forward pass).")
]
PassOption: TypeAlias = Annotated[Pass, Option("A prompt, or one more token.")]
PairsOption: TypeAlias = Annotated[
    Pairing, Option("Count the pairs that the mask allows, or every query against every key.")
]
MlaOption: TypeAlias = Annotated[
    Form | None, Option("Form of latent attention. Default: absorbed for decode, else expanded.")
]
#: recurrent states: None token by token, 0 in chunks as long as the mixer's own, else in chunks of so many tokens
Chunks: TypeAlias = int | None
ScanOption: TypeAlias = Annotated[
    str,
    Option("Recurrent states token by token (recurrent), or in chunks, as kernels compute a prompt: chunked[:TOKENS].",
           "FORM"),
]  # fmt: skip
LogitsOption: TypeAlias = Annotated[Logits, Option("Logits of all new tokens, or of the last.")]
KVDType: TypeAlias = Annotated[str, Option("Data type of the cache; K:V for two.", "TYPE", ("--kv-cache-dtype",))]
#: what an engine keeps a cache in where nothing is said
AUTO = "auto"
PublishedKVType: TypeAlias = Annotated[
    str,
    Option(
        "Data type of the cache; K:V for two. auto: bf16, in vllm and sglang what the files' config names.",
        "TYPE",
        ("--kv-cache-dtype",),
    ),
]
StateDType: TypeAlias = Annotated[str, Option("Data type of recurrent states.", "TYPE")]
EngineOption: TypeAlias = Annotated[
    Engine, Option("How memory is set aside: ideal is what must be held, the others as each program does it.")
]
MlaCache: TypeAlias = Annotated[CacheForm, Option("What latent attention keeps.")]
WithMTP: TypeAlias = Annotated[bool, Option("With the multi-token-prediction modules.")]
#: a piece that no prompt exceeds
ALL = 2**62
PrefillChunk: TypeAlias = Annotated[
    int | None,
    Option(
        "Tokens of one pass of a prefill, or all. Default: 8192; llama.cpp 512, transformers all, vllm as its rules "
        "say for the device (8192, 16384 or 2048).",
        also=("--max-num-batched-tokens", "--ubatch-size", "-ub"),
        words=(("all", ALL),),
    ),
]
MaxNumSeqs: TypeAlias = Annotated[
    int | None, Option("Sequences that vllm makes room for in its sampler. Default: by the device, 1024 or 256.")
]
EngineVersion: TypeAlias = Annotated[
    str | None, Option("Which vllm, such as 0.33. Default: whatever takes most of those from 0.8.", "VERSION")
]
NGL: TypeAlias = Annotated[
    int | None,
    Option("Layers that llama.cpp keeps on the device, the output being one; the rest on the host. Default: all.",
           least=0, also=("--n-gpu-layers", "-ngl")),
]  # fmt: skip
NCpuMoe: TypeAlias = Annotated[
    int, Option("Layers, from the first, whose experts llama.cpp leaves on the host.", least=0, also=("-ncmoe",))
]
TensorSplit: TypeAlias = Annotated[
    str | None,
    Option("Shares of the layers that llama.cpp gives to its devices: 3,1. Default: equal ones.", "SHARES", ("-ts",)),
]
OverrideTensor: TypeAlias = Annotated[
    str | None,
    Option(
        "Tensors that llama.cpp leaves on the host, by patterns of their names: ffn_.*_exps=CPU,…",
        "PATTERN=CPU",
        ("-ot",),
    ),
]
FlashAttn: TypeAlias = Annotated[Switch, Option("Whether llama.cpp attends without holding all scores.", also=("-fa",))]
WEIGHTS = Option(
    "How weights are stored: bf16, fp8, fp8-block, int8, int4[:GROUP[:sym]], awq, gptq, nf4, nf4-double, "
    "mxfp4, fp8-mxfp4, nvfp4, mlx4[:GROUP], exl3:BITS, torchao-int4, or GGUF's: q8_0, q4_k_m, iq3_xs, q4_0:imatrix, "
    "q4_k_m,blk.[0-3].ffn_down=q6_k (patterns, as --tensor-type), f16, …; a wrong one lists them all; "
    "nvfp4,attention=bf16: by component. "
    "Default: as published; in training, sweep and design bf16.",
    "TYPE",
    also=("--quantization",),
)
DType: TypeAlias = Annotated[str, WEIGHTS]
#: None: as the model is published
PublishedType: TypeAlias = Annotated[str | None, WEIGHTS]
CacheBytes: TypeAlias = Annotated[
    int | None, Option("What so much memory for a cache holds: tokens, requests.", "SIZE", least=0, is_size=True)
]
Overhead: TypeAlias = Annotated[
    int, Option("Added to each device, such as 1GiB for a runtime's context.", "SIZE", least=0, is_size=True)
]
TP: TypeAlias = Annotated[int, Option("Tensor parallel devices.", also=("--tensor-parallel-size",))]
PP: TypeAlias = Annotated[int, Option("Pipeline stages.", also=("--pipeline-parallel-size",))]
EP: TypeAlias = Annotated[int, Option("Expert parallel ranks, made from tp and dp.")]
DP: TypeAlias = Annotated[
    int | None,
    Option(
        "Data parallel copies, which share the batch. Default: as many as --ep needs.", also=("--data-parallel-size",)
    ),
]
StepBatch: TypeAlias = Annotated[
    int | None,
    Option(
        "Sequences; in training those of a step over all data parallel ranks. Default: 1, in training one micro-batch "
        "a rank.",
        also=("--batch-size",),
    ),
]
Optimizer: TypeAlias = Annotated[
    str,
    Option(
        "adam (default, mixed precision with fp32 master weights), adam-bf16, adam-8bit, sgd, …; a wrong one lists "
        "them all.",
        "NAME",
    ),
]
Gradients: TypeAlias = Annotated[GradientType | None, Option("Their type. Default: the optimiser's.")]
Zero: TypeAlias = Annotated[
    ZeroStage, Option("ZeRO over --dp ranks: 1 optimiser states, 2 gradients too, 3 weights too (FSDP).", "STAGE")
]
OffloadOption: TypeAlias = Annotated[Offload, Option("What is kept in the host's memory.")]
Lora: TypeAlias = Annotated[
    str | None,
    Option(
        "Train adapters only: 8 (of PEFT's own targets), 16:attn.q,attn.v, 8:all (all-linear: all but the output).",
        "RANK[:TARGETS]",
    ),
]
RecomputeOption: TypeAlias = Annotated[
    Recompute,
    Option("Activations made again in the backward pass: attention's core, all but attention and every second product "
           "(torchtitan), or whole layers."),
]  # fmt: skip
AttentionKernel: TypeAlias = Annotated[Kernel, Option("flash (default), or scores kept whole.")]
SequenceParallel: TypeAlias = Annotated[bool, Option("Split what tensor parallelism leaves whole along the sequence.")]
MicroBatch: TypeAlias = Annotated[
    int | None, Option("Sequences of one pass of one rank. Default: its share of the batch.")
]

R = TypeVar("R", bound="Run")


# --- what each analysis is told ---------------------------------------------------------------------------------------


class Run(Struct, frozen=True, kw_only=True):
    """The lengths that every analysis needs."""

    context: Context = None
    source: Source = None

    def __post_init__(self) -> None:
        check_fields(self)

    def length(self, architecture: Architecture) -> int:
        """Tokens of a sequence. InputError where the model has no position for the last of them."""
        if self.context is None:
            return architecture.c
        if self.context != possible(self.context, architecture):
            problem = f"{architecture.name} has a learned table of {architecture.c} positions"
            raise NoPosition(f"--context {self.context}: {problem}", kind="usage")
        return self.context

    def check_phase(self, architecture: Architecture, phase: Phase) -> None:
        """InputError where the model has no such pass."""
        if phase == "decode" and architecture.sees_all:
            problem = f"{architecture.name} sees all tokens at once, so none comes later"
            raise InputError(f"--phase decode: {problem}", "prefill is its pass", "usage")
        if phase != "prefill" and architecture.canvas is not None:
            problem = f"{architecture.name} denoises {architecture.canvas.length} tokens at once, in as many steps as"
            raise InputError(f"--phase {phase}: {problem} one takes", "prefill is the prompt's pass", "unsupported")
        if phase == "train" and architecture.block is not None:
            problem = f"{architecture.name} drafts blocks, and is trained on many of each text"
            raise InputError(f"--phase train: {problem}", "how many is not the model's to say", "unsupported")

    def check_modules(self, architecture: Architecture) -> None:
        """InputError where --mtp asks for modules that the model lacks."""
        if getattr(self, "mtp", False) and architecture.mtp is None:
            problem = f"{architecture.name} has no multi-token-prediction modules"
            raise InputError(f"--mtp: {problem}", "leave it out", "usage")

    def source_length(self, architecture: Architecture) -> int:
        """How long the other sequence is that an encoder reads or has read; 0 where there is none. InputError where it
        can't read it."""
        encoder, name, encoded = architecture.encoder, architecture.name, architecture.encoded
        if encoded is not None:
            return encoded.c if self.source is None else self.source
        if encoder is None:
            if self.source is not None:
                raise InputError(f"--source {self.source}: {name} has no encoder beside its layers", kind="usage")
            return 0
        if self.source is None:
            return encoder.c if encoder.front is not None else self.length(architecture)
        if self.source > encoder.c and encoder.embedding.position == "learned":
            problem = f"the encoder of {name} has a table of {encoder.c} positions"
            raise InputError(f"--source {self.source}: {problem}", kind="usage")
        return self.source

    def to(self, kind: type[R], **changes: Any) -> R:
        """As much of these conventions as another analysis takes."""
        return kind(**{name: getattr(self, name) for name in kind.__struct_fields__ if hasattr(self, name)} | changes)


class SumsRun(Run, frozen=True, kw_only=True):
    """One pass. prefill: `context` tokens from nothing; decode: the context-th token; train: a step."""

    phase: PhaseOption = "prefill"
    pairs: PairsOption = "causal"
    mla: MlaOption = None
    logits: LogitsOption = "all"
    scan: ScanOption = "recurrent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunks is not None and self.phase == "decode":
            raise InputError(f"--scan {self.scan}: a decode step is one token, no chunk", "leave it out", "usage")

    @property
    def chunks(self) -> Chunks:
        """How recurrent states are computed. InputError where --scan is no form."""
        form, colon, size = self.scan.partition(":")
        if form == "recurrent" and not colon:
            return None
        if form == "chunked" and not colon:
            return 0
        if form == "chunked" and is_count(size) and int(size):
            return int(size)
        hint = did_you_mean(form, ("recurrent", "chunked"))
        problem = "is not one of recurrent, chunked, chunked:TOKENS"
        raise InputError(f"--scan: {printable(self.scan)!r} {problem}", hint, "usage")

    @property
    def form(self) -> Form:
        """Latent attention makes keys and values of a prompt, and attends over latents in a decode step."""
        return self.mla or ("absorbed" if self.phase == "decode" else "expanded")

    @property
    def kept(self) -> CacheForm:
        """What latent attention reads of earlier tokens: in the expanded form their keys and values, else latents."""
        return "expanded" if self.phase == "decode" and self.form == "expanded" else "latent"


class ExplainRun(SumsRun, frozen=True, kw_only=True):
    """Which form of the sums is shown, and what is cached."""

    mla_cache: MlaCache = "latent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mla == "absorbed" and self.mla_cache == "expanded":
            raise InputError(
                "--mla absorbed: attends over latents, which --mla-cache expanded doesn't keep", kind="usage"
            )

    @property
    def form(self) -> Form:
        """The expanded form where keys and values are cached."""
        return "expanded" if self.mla_cache == "expanded" else super().form

    @property
    def kept(self) -> CacheForm:
        """What is said to be cached, or what the form reads."""
        return "expanded" if self.mla_cache == "expanded" else super().kept


class FlopsRun(SumsRun, frozen=True, kw_only=True):
    """One pass over a batch."""

    batch: Batch = 1
    mtp: WithMTP = False
    recompute: RecomputeOption = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recompute != "none" and self.phase != "train":
            raise InputError(f"--recompute {self.recompute}: only a training step makes anything again",
                             "add --phase train", "usage")  # fmt: skip


class CacheRun(Run, frozen=True, kw_only=True):
    """What is cached of a batch at a context, in which types, and who allocates it."""

    batch: Batch = 1
    kv_dtype: KVDType = "bf16"
    state_dtype: StateDType = "fp32"
    engine: EngineOption = "ideal"
    mla_cache: MlaCache = "latent"
    prefill_chunk: PrefillChunk = None
    mtp: WithMTP = False


class RoomRun(CacheRun, frozen=True, kw_only=True):
    """A cache, and what so many bytes of it hold, on each of so many tensor parallel devices."""

    kv_dtype: PublishedKVType = AUTO
    bytes: CacheBytes = None
    tp: TP = 1


class InferenceRun(CacheRun, frozen=True, kw_only=True):
    """A model that is served: the cache, the weights, one pass, and over how many devices."""

    dtype: PublishedType = None
    kv_dtype: PublishedKVType = AUTO
    phase: PassOption = "prefill"
    logits: LogitsOption = "last"
    overhead: Overhead = 0
    max_num_seqs: MaxNumSeqs = None
    engine_version: EngineVersion = None
    ngl: NGL = None
    n_cpu_moe: NCpuMoe = 0
    override_tensor: OverrideTensor = None
    tensor_split: TensorSplit = None
    flash_attn: FlashAttn = "on"
    tp: TP = 1
    pp: PP = 1
    ep: EP = 1
    dp: DP = None


class TrainingRun(Run, frozen=True, kw_only=True):
    """A training step, and over how many devices.

    batch: sequences of one step over all data parallel ranks; without it a pipeline is full. micro_batch: sequences of
    one pass of one rank; without it the rank's share of the batch.
    """

    batch: StepBatch = None
    dtype: DType = "bf16"
    engine: EngineOption = "ideal"
    overhead: Overhead = 0
    tp: TP = 1
    pp: PP = 1
    ep: EP = 1
    dp: DP = None
    optimizer: Optimizer = "adam"
    gradients: Gradients = None
    zero: Zero = 0
    offload: OffloadOption = "none"
    recompute: RecomputeOption = "none"
    attention: AttentionKernel = "flash"
    sequence_parallel: SequenceParallel = False
    micro_batch: MicroBatch = None
    lora: Lora = None
    mtp: WithMTP = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in ("ideal", "transformers"):
            raise InputError(
                f"--engine {self.engine}: it serves and doesn't train", "ideal and transformers do", "usage"
            )


class PacedRun(Run, frozen=True, kw_only=True):
    """A model that is served, and how fast: a prompt of `context` tokens, then the context-th token."""

    batch: Batch = 1
    dtype: PublishedType = None
    kv_dtype: KVDType = "bf16"
    state_dtype: StateDType = "fp32"
    mla: MlaOption = None
    tp: TP = 1
    pp: PP = 1
    ep: EP = 1
    dp: DP = None


class TimeRun(PacedRun, frozen=True, kw_only=True):
    """The same with what of a device's peak rate (mfu) and of its memory's bandwidth (mbu) is reached."""

    mfu: Share = 1
    mbu: Share = 1


class SweepRun(Run, frozen=True, kw_only=True):
    """The lengths and types of one point of a grid; its batch is a symbol."""

    dtype: DType = "bf16"
    kv_dtype: KVDType = "bf16"
    state_dtype: StateDType = "fp32"
    mla: MlaOption = None


class CorpusRun(TrainingRun, frozen=True, kw_only=True):
    """A training run. Unless it is said otherwise, devices are data parallel ranks that share weights and states."""

    zero: Zero = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lora is not None:
            raise InputError(f"--lora {printable(self.lora)}: what training adapters computes is not counted here",
                             "memory --training --lora has their memory", "unsupported")  # fmt: skip


#: of a device's memory, where nothing is said: what engines are told to leave alone, as vLLM's gpu_memory_utilization
#: of 0.9 does
DEVICE_SHARE: Share = 0.9


class PretrainRun(CorpusRun, frozen=True, kw_only=True):
    """The same over a corpus, at a share of the peak rate (None: what can be) or at a measured rate of all devices."""

    devices: int | None = None
    tokens: int | None = None
    mfu: Share | None = None
    tokens_per_second: Share | None = None
    price: Share | None = None  # of a device for an hour
    utilization: Share = DEVICE_SHARE


class FitRun(InferenceRun, frozen=True, kw_only=True):
    """A served model that is to fit a device. Without `advice` other formats and layouts are not tried."""

    utilization: Share = 1  # of a device, what may be used
    advice: bool = True


class TrainingFitRun(TrainingRun, frozen=True, kw_only=True):
    """A training step that is to fit a device."""

    utilization: Share = 1


class DiffRun(Run, frozen=True, kw_only=True):
    """Two models side by side."""

    batch: Batch = 1
    kv_dtype: KVDType = "bf16"


class CompareRun(DiffRun, frozen=True, kw_only=True):
    """Many models, a row each."""

    dtype: PublishedType = None


class LockRun(CompareRun, frozen=True, kw_only=True):
    """What the costs in a lock file were computed at."""

    mla_cache: MlaCache = "latent"


def possible(context: int | None, architecture: Architecture) -> int | None:
    """A longest context (None: any) as far as the model has positions: a learned table ends."""
    if architecture.embedding.position != "learned":
        return context
    return architecture.c if context is None else min(context, architecture.c)
