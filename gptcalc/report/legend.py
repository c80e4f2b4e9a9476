"""What the symbols of lines are called in words.

Indices by what they run over, values by name, weights by what they are for, functions by their definition. What stands
in front of a comma is the symbol's meaning, the same in a whole model; behind it a sublayer may say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from gptcalc import units
from gptcalc.equations import Line, Workload
from gptcalc.equations.grammar import DEFINITIONS, FUNCTIONS, OVER, Call, Chosen, Name, Reference, nodes
from gptcalc.equations.language import Index, Named
from gptcalc.equations.letters import letters
from gptcalc.equations.roles import Role
from gptcalc.report.values import VALUES
from gptcalc.report.weights import weight_in_words

ROLES: dict[Role, str] = {
    "new": "new tokens",
    "slots": "slots of the block that is drafted",
    "past": "tokens that can be seen, the new ones among them",
    "images": "tokens of images, none in a text",
    "canvas": "tokens of a block that is denoised at once, none in a prompt",
    "frames": "frames of sound",
    "source": "tokens of the other sequence",
    "entries": "entries, each for several earlier tokens",
    "vocabulary": "rows of the vocabulary",
    "positions": "rows of the table of positions",
    "layers": "layers",
    "heads": "heads",
    "channels": "channels",
    "experts": "experts",
    "choices": "what the router scores",
    "chosen": "places among the chosen experts",
    "streams": "residual streams",
    "projections": "matrices side by side",
    "coefficients": "numbers that mix streams",
    "taps": "tokens side by side",
    "distances": "distances between tokens",
    "frequencies": "pairs of channels that turn",
}
#: what is special about some sizes
SIZES = {
    "d": "channels of the residual stream",
    "n_kv_heads": "KV heads",
    "n_heads": "heads",
    "n_heads/n_kv_heads": "query heads that share a KV head, number (n_heads/n_kv_heads)·g + r the r-th of KV head g",
    "n_heads/n_groups": "heads of a group",
    "d_ff": "hidden units of the feed-forward layer",
    "4·d": "hidden units of the feed-forward layer",
    "d_expert": "hidden units of the feed-forward layer, of an expert",
    "n_shared·d_expert": "hidden units of the shared experts",
    "d_shared": "hidden units of the shared expert",
    "d_head": "channels of a head",
    "d/n_heads": "channels of a head",
    "kv_rank": "channels of the latent that keys and values are made of",
    "q_rank": "channels of the latent that queries are made of",
    "d_nope": "channels of a head, those that don't turn",
    "d_rope": "channels of a head, those that turn",
    "d_nope+d_rope": "channels of a head, those that turn behind the others",
    "d_v": "channels of a head, of its values",
    "d_state": "channels of the state",
    "d_k": "channels of a head, of its keys",
    "d_inner": "channels of a head, which the whole mixer is",
    "d_inner_head": "channels of a head",
    "d_inner/n_states": "channels of a head",
    "d_rnn": "channels of a head, which the whole recurrence is",
    "d_rnn/n_states": "channels of a head",
    "n_states": "heads, each with a state",
    "n_k_heads": "heads of queries and keys",
    "n_states/n_k_heads": "states that share a head of keys, number (n_states/n_k_heads)·ġ + ṙ the ṙ-th of head ġ",
    "n_states/n_kv_heads": "states that share a head of keys, number (n_states/n_kv_heads)·ġ + ṙ the ṙ-th of head ġ",
    "n_streams": "residual streams",
    "n_layers": "layers",
    "n_expert_groups": "groups of experts",
    "n_slots": "slots of a head, each with a key and a value",
    "n_groups": "groups of heads",
    "n_states/n_groups": "heads of a group, each with a state: head (n_states/n_groups)·ġ + ṙ is the ṙ-th of group ġ",
    "n_beside1": "what may be given with a token",
    "n_beside2": "what else may be given with it",
    "d_beside1": "channels of what is given with a token",
    "d_beside2": "channels of what else is given with it",
    "d+d_beside1": "channels of both behind each other",
    "d+d_beside1+d_beside2": "channels of all of them behind each other",
    "kernel": "tokens side by side, those that the convolution sees",
    "kernel−1": "tokens side by side, the last that the convolution will still see, the oldest first",
    "dt_rank": "channels of a bottleneck, the step size's",
    "decay_rank": "channels of a bottleneck, the decay's",
    "rate_rank": "channels of the rate's bottleneck",
    "gate_rank": "channels of the gate's bottleneck",
    "value_rank": "channels of the bottleneck that mixes values",
    "shift_rank": "channels of the bottleneck of shares",
    "n_shares": "what reads this token and the one before",
    "d_latent": "channels that routed experts read and write",
    "d_embed": "channels of the embedding's tables",
    "d_filter": "channels inside the filter",
    "d_out": "channels that the output matrix reads",
    "d_pooler": "channels of the pooler",
    "d_ple": "channels of a layer's slice of the second table",
    "d_source": "channels of the other sequence",
    "d_target": "channels of the target's states",
    "d_router": "channels inside the router",
    "d_relative": "channels that distances are read by",
    "n_types": "kinds of segments",
    "n_labels": "labels",
    "index_heads": "heads of the indexer",
    "d_index": "channels of an indexer's head",
    "v_ngram": "rows of the n-grams' table",
    "d_row": "channels of a head's row",
    "markov_rank": "columns of the table of the tokens in front",
    "d+markov_rank": "channels of two vectors behind each other",
    "d_gru": "channels of the state that the drafted tokens leave",
    "d+d_gru": "channels of two vectors behind each other",
    "n_gates": "gates: 0 resets, 1 updates, 2 is the candidate for the new state",
    "d_correction": "hidden units of what corrects the logits",
    "stream_rank": "channels of the bottleneck by which streams join",
    "2·d": "channels of two vectors behind each other",
    "2·d_head": "channels of a head, those for the entry before and those for its own",
    "2·d_index": "channels of an indexer's head, those for the entry before and those for its own",
    "v_ple": "rows of the second table",
    "laurel_rank": "channels of the bottleneck beside the residual",
    "adapter_rank": "channels of the adapter's bottleneck",
    "norm_rank": "channels of the norm's bottleneck",
    "adaptive_rank": "channels of the bottleneck of what all tokens' inputs are multiplied by",
    "message_rank": "channels of the message's bottleneck",
    "out_rank": "channels that a group's output is narrowed to",
    "n_mels": "channels of a frame of sound",
    "reach": "tokens side by side, the last that the convolution will still see, the oldest first",
    "n_hashes": "heads of n-grams, each with rows of its own",
}


#: numbers that lines have by name, beside the sizes
NUMBERS = {
    "T": "how many tokens are new",
    "S": "how many tokens can be seen, the new ones among them",
    "T_P": "how many tokens the prompt has",
    "N": "how many tokens the other sequence has",
    "layer": "which layer it is, counted from 0",
    "module": "which module it is, counted from 0",
    "ε": "what is added so that nothing is divided by 0",
    "turn": "a whole turn as an angle, twice the number of the circle",
    "θ": "base of the frequencies",
    "factor": "how much longer sequences become than the frequencies were made for",
    "original": "how many tokens a sequence had at first, before the frequencies were scaled",
    "low": "turns within the original length up to which a frequency is divided",
    "high": "turns within the original length from which on a frequency is kept",
    "beta_fast": "turns within the original length from which on a frequency is kept",
    "beta_slow": "turns within the original length up to which a frequency is divided",
    "stretch": "factor of what turns, so that scores keep their size",
    "D_short": "divisors of the frequencies, for sequences no longer than at first",
    "D_long": "divisors of the frequencies, for longer sequences",
    "n_experts": "how many experts",
    "top_k": "how many experts a token passes",
    "top_groups": "how many groups of experts a token may choose from",
    "index_top_k": "how many a query chooses of what is looked back on",
    "mask_top_k": "how many keys a query chooses",
    "window": "how many tokens are seen, the own one among them",
    "chunk": "how many tokens a chunk has",
    "block": "how many tokens a block has",
    "local": "how many of the newest blocks are seen by all",
    "stride": "of how many blocks before those one is seen",
    "head_step": "by how many blocks heads are apart",
    "every": "how many tokens an entry stands for",
    "softcap": "bound that no number goes beyond, by way of tanh",
    "softcap_G": "bound of the gate, by way of tanh",
    "softcap_U": "bound of the up-projection, by way of tanh",
    "limit": "bound at which numbers are cut",
    "longest": "bound of a vector's length",
    "scale_x": "factor of the embedding",
    "scale_u": "factor of the logits",
    "scale_y": "factor of what a sublayer adds",
    "scale_z": "factor of the scores",
    "scale_n": "factor of the stream",
    "scale_q": "factor of the queries",
    "scale_v": "factor of the values",
    "scale_KV": "factor of the latent",
    "scale_ρ": "factor of the router's scores",
    "scale_π": "factor of the experts' weights",
    "scale_β": "factor of the rate",
    "scale_λ": "factor of the rate that the stream moves by",
    "scale_G": "factor of the gate",
    "scale_B": "factor of what is written to the state",
    "scale_C": "factor of what reads the state",
    "scale_τ": "factor of the step size",
    "scale_slope": "factor of the slopes",
    "scale_s": "factor of learned factors",
    "scale_ζ": "factor of how alike a sum and the query are",
    "time": "the number that all tokens' factor is made of",
    "margin": "how much smaller than the largest a score may be, as a share",
    "floor": "positions from which on queries grow",
    "growth": "how much queries grow",
    "log_length": "length up to which queries don't grow",
    "sparsity": "share of the gate that becomes 0",
    "divisor": "divisor of the decay's exponent",
    "least_decay": "the decay's exponent is never below",
    "dt_min": "shortest step",
    "dt_max": "longest step",
    "temperature": "divisor in front of the logistic function",
    "magnitude": "bound of what spreads a sublayer's output over the streams",
    "iterations": "how often rows and columns are divided by their sums",
    "longest_gram": "tokens of the longest n-gram",
    "n_terms": "how many terms are added",
    "extent": "how many distances have a bias",
    "n_buckets": "how many buckets of distances",
    "head_kernel": "how many tokens the second convolution sees",
    "n_regular": "largest power of two up to the number of heads",
    "n_side": "how many buckets there are for one direction",
    "n_exact": "how many distances have a bucket each",
    "max_distance": "distance from which on all have one bucket",
    "span": "how many distances have a row each, in one direction",
    "first_special": "the first token that is special",
    "d_one": "hidden units of one shared expert",
}


class Symbol(Struct, frozen=True):
    """A symbol of the lines: index, value, weight, number or function, what it is, and what it runs over."""

    symbol: str
    kind: str
    meaning: str
    over: str = ""
    size: int | None = None
    definition: tuple[str, ...] = ()  # of a function: lines that say what it is
    keys: tuple[str, ...] = ()  # of a weight: without the sublayers' numbers
    values: tuple[float, ...] = ()  # of a number


#: kinds of symbols, in the order in which they are listed
KINDS = ("index", "value", "weight", "number", "function")


def legend(
    shown: Iterable[tuple[Line, Workload]], sizes: Mapping[str, int] = MappingProxyType({})
) -> tuple[Symbol, ...]:
    """Every symbol of the lines once for each meaning. `sizes`: what the architecture's numbers are."""
    found: dict[tuple[str, str, str, str], Symbol] = {}
    for line, work in shown:
        for symbol in _symbols(line, work, sizes):
            at = (symbol.symbol, symbol.kind, symbol.meaning, symbol.over)
            known = found.setdefault(at, symbol)  # an index may be of several lengths, as heads of several layers are
            if known != symbol and known.kind in ("weight", "number"):
                keys, values = (known.keys + symbol.keys, known.values + symbol.values)
                found[at] = replace(known, keys=tuple(dict.fromkeys(keys)), values=tuple(dict.fromkeys(values)))
    return tuple(sorted(found.values(), key=lambda symbol: KINDS.index(symbol.kind)))


def _symbols(line: Line, work: Workload, sizes: Mapping[str, int]) -> Iterator[Symbol]:
    """The symbols of a line and of its condition."""
    for letter, index in letters(line).items():
        yield Symbol(letter, "index", index_in_words(index), index.symbol, index.length(work))
    for node in nodes(line.text, str(line.condition or "")):
        match node:
            case Call():
                yield function(node.function)
                if "ε" in line.constants and any("ε" in text for text in DEFINITIONS.get(node.function, ())):
                    yield _number("ε", line, work, sizes)
            case Reference() | Chosen() if node.name in line.weights:
                key = ("mtp." if line.component == "mtp" else "") + line.weights[node.name].plain
                yield Symbol(node.name, "weight", weight_in_words(key), keys=(key,))
            case Reference() | Chosen():
                yield Symbol(node.name, "value", value_in_words(node.name, line))
            case Name() if node.name not in line.scope:
                yield _number(node.name, line, work, sizes)
            case _:
                pass


def _number(name: str, line: Line, work: Workload, sizes: Mapping[str, int]) -> Symbol:
    """What a number is called, and what it is where that is known."""
    known: Mapping[str, Named] = {"T": work.new_tokens, "S": work.context, "N": work.source, **sizes, **line.constants}
    value, word = known.get(name), number_in_words(name) or size_in_words(name)
    return Symbol(name, "number", word, values=(value,) if isinstance(value, int | float) else ())


def shown(value: float) -> str:
    """What a number is, as a reader sees it."""
    return units.grouped(int(value)) if value == int(value) else f"{value:g}"


def number_in_words(name: str) -> str:
    """What a number is that is no size; one of a section's own is called as the others: θ_local as θ, θ′ as θ."""
    name = name.rstrip("′")
    while name not in NUMBERS and "_" in name:
        name = name.rpartition("_")[0]
    return NUMBERS.get(name, "")


def size_in_words(name: str) -> str:
    """How many of something there are."""
    return f"how many {found}" if (found := _sized(name)) else ""


def index_in_words(index: Index) -> str:
    return _sized(index.symbol) or ROLES[index.role]


def _sized(symbol: str) -> str:
    """What is special about a size. One of a section's own is called as the others: d_ff_local as d_ff."""
    if symbol in SIZES:
        return SIZES[symbol]
    return SIZES.get(re.sub(r"[^\W\d]\w*", lambda name: _stem(name[0]), symbol), "")


def _stem(name: str) -> str:
    """The beginning of a size's name that stands in SIZES, alone or with others."""
    stem = name
    while stem not in STEMS and "_" in stem:
        stem = stem.rpartition("_")[0]
    return stem if stem in STEMS else name


#: the names that the sizes are made of
STEMS = frozenset(name for size in SIZES for name in re.findall(r"[^\W\d]\w*", size))


def value_in_words(name: str, line: Line) -> str:
    """A value's name; K_local and the like are what an earlier sublayer made."""
    kind = line.part.rstrip("0123456789")
    stem, _, section = name.rpartition("_")
    if section == "last":
        return f"{VALUES[stem]}, of the last pass"
    if section == "before":
        return f"{VALUES[stem]}, of the last sublayer before"
    if name not in VALUES and stem == line.statement.left.name:
        return f"{VALUES[stem]}, of the last {section} before"
    return VALUES.get(f"{kind}.{name}") or VALUES.get(name, "")  # a test says where a name is missing


def function(name: str) -> Symbol:
    """A function's meaning, and its definition where it has one."""
    return Symbol(name, "function", FUNCTIONS.get(name) or OVER[name], definition=DEFINITIONS.get(name, ()))
