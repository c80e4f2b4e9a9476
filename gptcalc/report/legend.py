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

ROLES: dict[Role, str] = {
    "new": "new tokens",
    "slots": "slots of the block that is drafted",
    "past": "tokens so far, the new ones among them",
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
    "n_types": "kinds of segments",
    "n_labels": "labels",
    "index_heads": "heads of the indexer",
    "d_index": "channels of an indexer's head",
    "v_ngram": "rows of the n-grams' table",
    "n_hashes": "heads of n-grams, each with rows of its own",
    "d_row": "channels of a head's row",
    "stream_rank": "channels of the bottleneck by which streams join",
    "2·d": "channels of two vectors behind each other",
}

#: values, by name; where sublayers of another kind mean something else, by KIND.NAME
VALUES = {
    "x": "residual stream",
    "n": "what the sublayer reads, normed",
    "ω": "angle per position (frequency) of each pair of channels",
    "m_ω": "share of a pair that keeps its frequency",
    "f_ω": "learned factor of the frequencies",
    "D_short": "divisors of the frequencies in short contexts",
    "D_long": "divisors of the frequencies in long contexts",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "K": "keys, cached",
    "V": "values, cached",
    "z": "scores",
    "α": "attention weights",
    "far": "how many blocks back a key is, none where a head sees its block anyway",
    "o": "what each head has read",
    "y": "what the sublayer adds to the stream",
    "y′": "what the sublayer adds, as it was",
    "c_Q": "latent of the queries",
    "q_N": "queries, the channels that don't turn",
    "q_R": "queries, the channels that turn",
    "c_KV": "latent of keys and values",
    "k_N": "keys, the channels that don't turn",
    "k_R": "keys' channels that turn, one for all heads",
    "C": "latents, cached",
    "K_R": "turned keys, cached",
    "G": "gate",
    "U": "up-projection",
    "H": "hidden units",
    "ρ": "router's scores",
    "B": "chosen groups",
    "R": "chosen experts",
    "π": "weight of each expert",
    "Π": "sum of the chosen experts' weights",
    "G_S": "gate of the shared experts",
    "U_S": "up-projection of the shared experts",
    "H_S": "hidden units of the shared experts",
    "y_S": "what the shared experts add",
    "γ_S": "gate of the shared experts' output",
    "logits": "score of every token of the vocabulary to be the next",
    "prob": "probability of every token of the vocabulary to be the next",
    "ℓ": "low rank beside the residual",
    "ℓ_N": "low rank of the norm's gate",
    "G_N": "gate of the norm",
    "c_R": "latent of the queries before its norm",
    "c_B": "latent of the queries, and itself before its norm",
    "q_I": "queries of the indexer",
    "k_I": "keys of the indexer",
    "K_I": "keys of the indexer, cached",
    "ω_I": "weights of the indexer's heads",
    "θ": "weights of the indexer's heads",
    "ζ": "scores of the indexer",
    "I": "the indexer's score of a token",
    "J": "tokens (or entries) that the indexer chose",
    "G_O": "gate of the heads' outputs",
    "x_E": "row of the token",
    "n_E": "embedding, normed or projected",
    "n_P": "the token that is pooled; of a mixer the token before",
    "c_P": "pooled vector",
    "Δ": "what a sublayer adds",
    "Δ′": "what a sublayer in parallel adds",
    "slope": "slope of a head's penalty on distance",
    "u": "input of the recurrence",
    "u_C": "input of the convolution, taps beside each other",
    "û": "input, convolved",
    "R_u": "last tokens' inputs, cached for the convolution",
    "mamba.B": "what is written into the state, per token",
    "mamba2.B": "what is written into the state, per token",
    "conv.B": "gate before the convolution",
    "B_C": "B, taps beside each other",
    "B̂": "B, convolved",
    "R_B": "last tokens' B, cached for the convolution",
    "mamba.C": "how the state is read, per token",
    "mamba2.C": "how the state is read, per token",
    "conv.C": "gate behind the convolution",
    "C_C": "C, taps beside each other",
    "Ĉ": "C, convolved",
    "R_C": "last tokens' C, cached for the convolution",
    "τ": "step size",
    "δ": "low rank of the step size",
    "S": "state",
    "x_S": "what the encoder hands over",
    "N_x": "how many sums the residual has",
    "labels": "score of each label",
    "b_Z": "learned bias of a score by distance",
    "r_D": "row of a distance",
    "K_D": "keys of distances",
    "z_D": "scores of a query against distances",
    "Q_D": "queries of distances",
    "y_D": "scores of a key against distances",
    "x_0": "embedding of the token, as it was",
    "n_H": "hidden state, normed",
    "x_M": "embedding and hidden state behind each other",
    "h_T": "hidden states of the target",
    "n_C": "embedding and stream behind each other",
    "X": "residual streams",
    "X′": "residual streams, predicted",
    "n_X": "streams, normed",
    "ξ": "scores that make the mixing coefficients",
    "J_X": "how streams join into a sublayer's input",
    "S_X": "how a sublayer's output is spread over the streams",
    "ℓ_X": "bottleneck of how streams join",
    "M_X": "how streams mix with each other",
    "τ_T": "type of the token",
    "τ_S": "type of the token that is looked at",
    "e_N": "rows of the n-grams that end here",
    "engram.k_N": "keys of the n-grams",
    "engram.v_N": "value of the n-grams",
    "g_N": "how much the stream asks for the n-grams",
    "u_N": "value of the n-grams, as far as it is asked for",
    "c_N": "the same, normed",
    "c_N_C": "the same, taps beside each other",
    "ĉ_N": "the same, convolved",
    "R_N": "last tokens' values of n-grams, cached for the convolution",
    "p_I": "mean key of each block",
    "I_B": "the indexer's merit of each block, the newest before all",
    "o_A": "heads' outputs, projected to a low rank",
    "c_C": "what entries are made of",
    "w_C": "weights by which entries are made",
    "O_c": "contents of the open entry, cached",
    "O_c_P": "contents of the entry before, cached",
    "O_w": "weights of the open entry, cached",
    "O_w_P": "weights of the entry before, cached",
    "β": "share of each token in its entry",
    "c_C_E": "contents of an entry's tokens",
    "c_C_I": "what the indexer's entries are made of",
    "w_C_I": "weights by which the indexer's entries are made",
    "O_c_I": "contents of the indexer's open entry, cached",
    "O_c_P_I": "contents of the indexer's entry before, cached",
    "O_w_I": "weights of the indexer's open entry, cached",
    "O_w_P_I": "weights of the indexer's entry before, cached",
    "β_I": "share of each token in the indexer's entry",
    "c_C_I_E": "contents of an entry's tokens, the indexer's",
    "C_I": "the indexer's entries, cached",
    "z_C": "scores against entries",
    "α_C": "attention weights of entries",
    "F_C": "frames, taps beside each other",
    "x_F": "first convolution's output",
    "x_C": "the same, taps beside each other",
    "b_Δ": "bias of a key by a learned step",
    "x_L": "slices of the embedding for every layer",
    "r_L": "the same, made of the stream",
    "r_X": "size of the stream",
    "Y": "stream, projected",
    "n_A": "what the mixing coefficients are made of",
    "ρ_X": "router of the streams",
    "c_X": "how streams predict each other",
    "y_L": "what the low rank adds",
    "Δ_X": "what the prediction missed",
    "G_L": "gate of the layer's slice",
    "n_R": "input of the router, normed",
    "x_T": "states of the target, projected",
    "k_B": "keys of the block",
    "v_B": "values of the block",
    "z_B": "scores within the block",
    "α_B": "attention weights within the block",
    "e_M": "row of the drafted token",
    "c_A": "confidence",
    "k_C": "keys, taps beside each other",
    "k̂": "keys, convolved",
    "deltamix.k̂": "keys, of length 1",
    "R_k": "last tokens' keys, cached for the convolution",
    "v_C": "values, taps beside each other",
    "v̂": "values, convolved",
    "R_v": "last tokens' values, cached for the convolution",
    "q_C": "queries against latents",
    "o_C": "what each head has read of the latents",
    "linear.q_C": "queries, taps beside each other",
    "q̂": "queries, convolved",
    "R_q": "last tokens' queries, cached for the convolution",
    "q_P": "queries against distances",
    "b_P": "bias of each distance",
    "b": "bias of a score by distance",
    "sink_T": "share of attention that goes nowhere, of each token",
    "y_C": "output, taps beside each other",
    "ŷ": "output, convolved",
    "R_y": "last tokens' outputs, cached for the convolution",
    "Z": "sums of the stream after each block of layers",
    "n_Z": "sums that are mixed, normed",
    "ζ_Z": "scores of the sums",
    "α_Z": "weights of the sums",
    "x_Z": "mixture of the sums",
    "x_B": "slow state",
    "x_A": "fast state",
    "x_I": "stream as a loop begins with it",
    "x_O": "stream behind the last pass",
    "Z_M": "sums set aside in the last pass",
    "n_M": "sums of the last pass, normed",
    "ζ_M": "scores of the last pass's sums",
    "α_M": "their shares",
    "h_M": "message of the last pass",
    "x_H": "what the sublayer reads",
    "x_H_Q": "what queries are made of",
    "x_H_K": "what keys are made of",
    "x_H_V": "what values are made of",
    "s_H": "what a sublayer reads, normed",
    "r_H": "message, normed",
    "c_H": "both side by side",
    "ℓ_H": "both, narrowed",
    "f_H": "how much is forgotten",
    "g_H": "how much is heard",
    "n_K": "input of the keys, normed",
    "n_V": "input of the values, normed",
    "τ_k": "taps that a token makes for keys",
    "T_k": "taps for keys",
    "τ_v": "taps that a token makes for values",
    "T_v": "taps for values",
    "q_E": "queries of each expert",
    "o_E": "heads' outputs of each expert",
    "F′": "low rank of the decay",
    "F": "decay, before its function",
    "γ": "decay of the state",
    "m": "what the state remembers of the key",
    "z′": "low rank of the gate",
    "linear.z": "gate of the output",
    "mamba.z": "gate of the output",
    "mamba2.z": "gate of the output",
    "rglru.z": "gate of the output",
    "x_V": "stream before a nested block",
    "n_I": "input of the indexer's queries, normed",
    "β_x": "share of the new",
    "α_x": "share of the old",
    "n_L": "input of the experts, of their width",
    "y_E": "what each expert adds",
    "i": "input gate",
    "r": "receptance, or forget gate",
    "R_n": "the last token's input, cached",
    "r_M": "input of the receptance: this token and the one before",
    "k_M": "input of the keys: this token and the one before",
    "v_M": "input of the values: this token and the one before",
    "z_M": "input of the gate: this token and the one before",
    "w_M": "input of the decay: this token and the one before",
    "a_M": "input of the rate: this token and the one before",
    "matrixmix.x_M": "input of the shares: this token and the one before",
    "ψ": "largest exponent so far, with the new one",
    "μ": "largest exponent so far",
    "N": "sum that the state is divided by",
    "r_U": "receptance with the bonus",
    "u_U": "bonus of the newest token",
    "l_M": "low rank of the shares",
    "m_M": "share of the token before",
    "w_L": "low rank of the decay",
    "w": "decay",
    "a_L": "low rank of the rate",
    "a": "rate at which a key is forgotten",
    "z_L": "low rank of the gate",
    "v_0": "values of the first layer",
    "h": "what the state remembers of the key",
    "b_L": "low rank of the share of the first values",
    "ι": "input gate, as an exponent",
    "ν": "what the sum of keys says of the query",
    "x_N": "input of the projection behind",
    "y_J": "output, projected",
    "ℓ_M": "low rank of the layer's adapter",
    "ℓ_Q": "low rank of the layer's adapter of queries",
    "ℓ_K": "low rank of the layer's adapter of keys",
    "ℓ_V": "low rank of the layer's adapter of values",
    "λ": "share of the second attention that is taken away",
    "λ_0": "what that share is at first, by depth",
    "λ_1": "the first half of its learned part",
    "λ_2": "the second half of its learned part",
    "Γ": "logarithm of the decay since the chunk began",
    "Γ_C": "the same at the chunk's end",
    "Γ_P": "the same without the token's own",
    "z_S": "scores within the chunk",
    "A": "how alike two keys of the chunk are",
    "linear.k_I": "keys less what the state knows of them, within the chunk",
    "deltamix.k_I": "what the state before the chunk is read by, with all that the chunk takes away",
    "mlstm.k_I": "keys, as much of them as is left at the chunk's end",
    "A_K": "how alike directions and keys of the chunk are",
    "A_R": "how alike directions of the chunk are, by how much is taken away",
    "I_R": "inverse of 1 − A_R, row by row",
    "I_K": "the same times A_K",
    "z_R": "scores within the chunk of what is taken away",
    "h_I": "what the chunk's own tokens wrote of the key",
    "mlstm.m": "largest exponent of what a token reads",
    "m_C": "largest exponent of the chunk's own keys at its end",
    "μ_B": "largest exponent at the chunk's begin",
    "N_B": "sum that the state is divided by, at the chunk's begin",
    "q_B": "queries of the state before the chunk",
    "I_A": "inverse of 1 + A, row by row",
    "v_I": "values less what the state knows of them, within the chunk",
    "S_B": "state at the chunk's begin",
    "u_D": "convolved, neighbours beside each other",
    "u_H": "convolved within heads",
    "R_head": "last tokens, cached for the second convolution",
    "q_M": "mean of query and key",
    "v_N": "values of this token",
    "ρ_D": "router's input",
    "h_R": "router's state, from layer to layer",
    "a_R": "hidden units of the router",
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
                    found[Symbol(node.name, "weight", line.weights[node.name].plain)] = None
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
