"""What the symbols of lines are called in words.

Indices by what they run over, values by name, functions by their definition, weights by their keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gptcalc.equations import Line, Workload
from gptcalc.equations.grammar import DEFINITIONS, FUNCTIONS, OVER, Call, Chosen, Reference, sentence, walk
from gptcalc.equations.language import Index
from gptcalc.equations.letters import letters
from gptcalc.equations.roles import Role
from gptcalc.report.values import VALUES

ROLES: dict[Role, str] = {
    "new": "new tokens",
    "slots": "slots of the block that is drafted",
    "past": "tokens that can be seen, the new ones among them",
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
    "n_heads/n_kv_heads": "query heads that share a KV head: of R a KV head, query head h has g = ⌊h/R⌋, r = h − R·g",
    "n_heads/n_groups": "heads of a group",
    "d_ff": "hidden units of the feed-forward layer",
    "4·d": "hidden units of the feed-forward layer",
    "d_expert": "hidden units of an expert",
    "n_shared·d_expert": "hidden units of the shared experts",
    "d_shared": "hidden units of the shared expert",
    "d_head": "channels of a head",
    "d/n_heads": "channels of a head",
    "kv_rank": "channels of the latent that keys and values are made of",
    "q_rank": "channels of the latent that queries are made of",
    "d_nope": "channels of a head that don't turn",
    "d_rope": "channels of a head that turn",
    "d_nope+d_rope": "channels of a query head, those that turn behind the others",
    "d_v": "channels of a head's values",
    "d_state": "channels of the state",
    "d_k": "channels of a head's keys",
    "d_inner": "channels inside the mixer",
    "d_inner_head": "channels of a head",
    "d_inner/n_states": "channels of a head",
    "d_rnn": "channels of the recurrence",
    "d_rnn/n_states": "channels of a block of them",
    "n_states": "heads, each with a state",
    "n_k_heads": "heads of queries and keys",
    "n_states/n_k_heads": "states that share a head of keys: of R a head of keys, state h has ġ = ⌊h/R⌋, ṙ = h − R·ġ",
    "n_states/n_kv_heads": "states that share a head of keys: of R a head, state h has ġ = ⌊h/R⌋, ṙ = h − R·ġ",
    "n_slots": "slots of a head, each with a key and a value",
    "n_groups": "groups of heads",
    "n_states/n_groups": "heads of a group, each with a state: of R a group, head h has ġ = ⌊h/R⌋, ṙ = h − R·ġ",
    "kernel": "tokens that the convolution sees, side by side",
    "dt_rank": "channels of the step size's bottleneck",
    "decay_rank": "channels of the decay's bottleneck",
    "rate_rank": "channels of the rate's bottleneck",
    "gate_rank": "channels of the gate's bottleneck",
    "value_rank": "channels of the bottleneck that mixes values",
    "shift_rank": "channels of the bottleneck of shares",
    "n_shares": "what reads this token and the one before",
    "d_latent": "channels that routed experts read and write",
    "d_embed": "channels of the embedding's tables",
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
    "n_hashes": "heads of n-grams, each with rows of its own",
    "d_row": "channels of a head's row",
    "markov_rank": "columns of the table of the tokens in front",
    "d+markov_rank": "channels of two vectors behind each other",
    "d_gru": "channels of the state that the drafted tokens leave",
    "d+d_gru": "channels of two vectors behind each other",
    "n_gates": "gates: 0 resets, 1 updates, 2 is the candidate for the new state",
    "d_correction": "hidden units of what corrects the logits",
    "stream_rank": "channels of the bottleneck by which streams join",
    "2·d": "channels of two vectors behind each other",
}


class Symbol(Struct, frozen=True):
    """A symbol of the lines: index, value, weight or function, what it is, and what it runs over."""

    symbol: str
    kind: str
    meaning: str
    over: str = ""
    size: int | None = None
    definition: tuple[str, ...] = ()  # of a function: lines that say what it is


def legend(shown: Iterable[tuple[Line, Workload]]) -> tuple[Symbol, ...]:
    """Every symbol of the lines once for each meaning: indices, values, weights, functions."""
    found: dict[Symbol, None] = {}
    rank = ("index", "value", "weight", "function")
    for line, work in shown:
        tree = sentence(line.text)
        for letter, index in letters(line).items():
            found[Symbol(letter, "index", index_in_words(index), index.symbol, index.length(work))] = None
        for node in (tree.left, *walk(tree.right), *(n for value in tree.letters.values() for n in walk(value))):
            match node:
                case Call():
                    found[function(node.function)] = None
                case Reference() | Chosen() if node.name in line.weights:
                    where = "mtp." if line.component == "mtp" else ""
                    found[Symbol(node.name, "weight", where + line.weights[node.name].plain)] = None
                case Reference() | Chosen():
                    found[Symbol(node.name, "value", value_in_words(node.name, line))] = None
    apart: dict[tuple[str, str, str, str], Symbol] = {}
    for symbol in found:  # an index may be of several lengths, as heads of several kinds of layers are
        apart.setdefault((symbol.symbol, symbol.kind, symbol.meaning, symbol.over), symbol)
    return tuple(sorted(apart.values(), key=lambda symbol: rank.index(symbol.kind)))


def index_in_words(index: Index) -> str:
    symbol = index.symbol
    return next((SIZES[s] for s in (symbol, *_stems(symbol)) if s in SIZES), ROLES[index.role])


def _stems(symbol: str) -> Iterable[str]:
    """d_ff_local → d_ff: a size of a section's own is called as the others."""
    while "_" in symbol:
        symbol = symbol.rpartition("_")[0]
        yield symbol


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
