"""The language of lines, run: every line of a model evaluated on arrays, by the meaning that grammar.py gives it.

It knows nothing of attention or experts, only the language. A value is an array with a letter for each axis; what does
not exist is NaN, and left out of sums. All indices run over their whole range at once: for small models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from gptcalc.architecture import Architecture, Block, Engram, stem, sublayers, visits
from gptcalc.equations import Constant, Index, Line
from gptcalc.equations.grammar import (
    Call,
    Chosen,
    Comparison,
    Membership,
    Name,
    Node,
    Number,
    Operation,
    Pieces,
    Reference,
    conditions,
    sentence,
    walk,
)
from gptcalc.equations.stages import Equations, Layer
from gptcalc.reference.source import stand_in_block, stand_ins

Array = np.ndarray[Any, Any]


class Value(NamedTuple):
    """An array, and the letter of each of its axes."""

    letters: tuple[str, ...]
    array: Array

    def over(self, letters: Iterable[str]) -> Array:
        """The array with these axes, in this order; of length 1 where it has no such letter."""
        wanted = tuple(letters)
        assert set(self.letters) <= set(wanted), (self.letters, wanted)
        order = [self.letters.index(letter) for letter in wanted if letter in self.letters]
        shape = [
            self.array.shape[self.letters.index(letter)] if letter in self.letters else 1 for letter in wanted
        ]  # fmt: skip
        return self.array.transpose(order).reshape(shape)


class Set(NamedTuple):
    """What `top` chose: the members along the last axis, the best first, −1 where there are no more."""

    letters: tuple[str, ...]
    members: Array


class Known(NamedTuple):
    """What is still known of a value, and what its axes run over."""

    axes: tuple[Index, ...]
    array: Array


class Product(NamedTuple):
    """A sum with a weight."""

    key: str
    line: Line
    value: Value  # Σ alone, without what is added to it
    chosen: Set | None  # the experts that were chosen last


def union(values: Iterable[Value]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(letter for value in values for letter in value.letters))


def together(function: Callable[..., Array], *values: Value) -> Value:
    letters = union(values)
    return Value(letters, function(*(value.over(letters) for value in values)))


erf = np.vectorize(math.erf, otypes=[float])
NUMERIC: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "exp": np.exp,
    "ln": np.log,
    "cos": np.cos,
    "sin": np.sin,
    "tanh": np.tanh,
    "σ": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "relu": lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0.0)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "max": lambda *x: np.max(np.broadcast_arrays(*x), axis=0),
    "min": lambda *x: np.min(np.broadcast_arrays(*x), axis=0),
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "probit": lambda x: np.vectorize(NormalDist().inv_cdf, otypes=[float])(x),
    "dropout": lambda x, keep: x * keep,
}
BINARY: dict[str, Callable[..., Array]] = {
    "+": np.add, "−": np.subtract, "·": np.multiply, "/": np.divide,
    "^": lambda a, b: np.power(np.asarray(a, float), b),
}  # fmt: skip
COMPARED: dict[str, Callable[..., Array]] = {
    "=": np.equal, "≠": np.not_equal, "<": np.less, "≤": np.less_equal, ">": np.greater, "≥": np.greater_equal,
}  # fmt: skip


class Run:
    """A model's lines on a sequence of tokens."""

    def __init__(
        self, architecture: Architecture, equations: Equations, weights: Mapping[str, Array], tokens: Array,
        listed: Callable[[str, Array, int, int], Array], before: Run | None = None, source: Array | None = None,
        drafted: Array | None = None,
    ) -> None:  # fmt: skip
        """`listed` gives a fixed table's choice for tokens, by the sublayer's prefix, k and n. `before` is the run of
        all tokens but the last, which alone is new then: of the others there is what store lines kept. `source` are an
        encoder's tokens, or frames (N, channels), `drafted` a block's tokens, each of which decides about the next."""
        self.architecture = architecture
        self.equations = equations
        self.weights = weights
        self.tokens = tokens
        self.listed = listed
        self.length = len(tokens)
        self.prompt: int = self.length if before is None else before.prompt
        self.source = source
        self.drafted = np.zeros(0, int) if drafted is None else drafted
        encoder = architecture.encoder
        frames = 1 if encoder is None or encoder.front is None else encoder.front.frames
        self.source_length = 0 if source is None else len(source) // frames
        self.values: dict[str, Array] = {}
        self.sets: dict[str, Set] = {}
        self.axes: dict[str, tuple[Index, ...]] = {}  # what the axes of a value run over
        self.left: dict[str, Array | Set] = {}  # NAME_SECTION, NAME_before
        self.named: dict[str, float] = {}
        self.line: Line
        self.block = next(architecture.blocks())
        self.before = before
        #: of what an index runs over the only one that is new: in a decode step, or where a state is walked
        self.only: dict[str, int] = {} if before is None else {"new": len(tokens) - 1}
        self.prefix = ""
        self.passing = ""  # in front of what a pass of a loop keeps, behind the first
        self.layer_ends: list[Array] = []  # the stream, or all streams, after every layer
        self.products: list[Product] = []
        self.softmaxes: list[list[Value]] = []  # the attention weights of every sublayer
        self.stored: list[tuple[str, Line, Array]] = []
        self.kept: dict[tuple[str, str], dict[str, Known]] = {}  # by stage and sublayer: what store lines read
        self.read: dict[str, Array] = {}  # which elements this line has read of what there is

    def whole(self) -> None:
        """The forward pass; an encoder's with the first tokens alone."""
        if self.source is not None and self.before is None:
            if self.architecture.encoder is None:
                self.values["x_S"] = self.source
            else:
                self.encode(self.source)
        self.stage(self.equations.embedding.lines)
        for number, block, number_of_pass in visits(self.architecture):
            layer = next(layer for layer in self.equations.layers if layer.block == block)
            self.named["layer"] = number
            apart = block.looped is None or block.looped.caches == "each"
            self.passing = f"pass {number_of_pass} " if number_of_pass and apart else ""
            self.stage(layer.in_pass(number_of_pass), f"layers.{number}.", block)
            self.layer_ends.append(self.values["X" if self._several else "x"].copy())
        self.passing = ""
        self.stage(self.equations.output.lines)

    def encode(self, source: Array) -> None:
        """The encoder's pass: its tokens are the source's."""
        encoder, target = self.architecture.encoder, self.tokens
        assert encoder is not None
        first, *layers, last = self.equations.encoder
        self.tokens, self.length = source, self.source_length
        self.stage(first.lines, "encoder.")
        for number, block in enumerate(encoder.blocks()):
            layer = next(layer for layer in layers if isinstance(layer, Layer) and layer.block == block)
            self.named["layer"] = number
            self.stage(layer.lines, f"encoder.layers.{number}.", block)
        self.stage(last.lines, "encoder.")
        self.tokens, self.length = target, len(target)

    def done(self, line: Line) -> bool:
        """Whether a step has nothing to do: of the source alone, all is made with the first tokens."""
        roles = {line.scope[index.name].role for index in sentence(line.text).left.indices if isinstance(index, Name)}
        return self.before is not None and "source" in roles and "new" not in roles

    @property
    def _several(self) -> bool:
        return self.architecture.altup is not None or self.architecture.streams is not None

    def modules(self) -> None:
        """Multi-token prediction, after the forward pass: each module sees one token less."""
        if self.equations.mtp is None:
            return
        self.values["x" if self.architecture.streams is None else "X"] = (
            self.values["n"] if self.architecture.streams is None else self.layer_ends[-1]
        )
        whole = self.length
        for number in range(self.equations.mtp.times):
            self.length = whole - number - 1
            self.named["module"] = number
            self.stage(self.equations.mtp.lines, f"mtp.{number}.", self.equations.mtp.block)
        self.length = whole

    def stage(self, lines: Iterable[Line], prefix: str = "", block: Block | None = None) -> None:
        sections = {} if block is None else parts(block)
        self.block = self.block if block is None else block
        kept: set[tuple[str, str]] = set()
        self.prefix = prefix
        lines = list(lines)
        place = self.passing + prefix
        for line in lines:
            if self.before is not None and self.done(line) and line.kind == "store":
                known = self.before.kept[place, line.part][line.statement.left.name]
                self.stored.append((f"{place}{line.part}", line, known.array))
        for line in self.walked([line for line in lines if not self.done(line)]):
            name = sentence(line.text).left.name
            made = self.sets[name] if name in self.sets else self.values[name]
            if line.stored is not None:
                kept.add((line.part, name))
                self.stored.append((f"{place}{line.part}", line, self.values[name]))
            elif (line.part, name) in kept:
                continue
            self.left[f"{name}_{sections.get(line.part, '')}"] = self.left[f"{name}_before"] = made

    def walked(self, lines: list[Line]) -> Iterator[Line]:
        """Runs the lines and gives each when it is run; those with a state token by token (or slot by slot of a block
        that is drafted), so that it has no t."""
        at = 0
        while at < len(lines):
            if self.before is not None and (at == 0 or lines[at].part != lines[at - 1].part):
                self.recall(self.before, lines[at].part)
            block = with_states(lines, at)
            if len(block) == 1 and not of_itself(block[0]):
                self.run(lines[at])
            else:
                self.token_by_token(block)
            yield from block
            at += len(block)

    def token_by_token(self, lines: list[Line]) -> None:
        whole = self.only
        walking = next(index for line in lines for index in line.ranges().values() if index.role in MOVING)
        for line in lines:
            left = line.statement.left
            if MOVING.isdisjoint(line.roles(left)):
                if self.before is None or walking.role == "slots":  # each block begins anew
                    self.values[left.name] = np.zeros([line.scope[letter].size for letter in left.indices])
            elif of_itself(line):
                self.values[left.name] = np.full([self.size(letter, line) for letter in left.indices], np.nan)
        places = (whole[walking.role],) if walking.role in whole else range(self.whole_extent(walking))
        for place in places:
            self.only = {**whole, walking.role: place}
            for line in lines:
                self.run(line)
        self.only = whole

    def recall(self, before: Run, part: str) -> None:
        """What a sublayer's store lines keep is known, with room for what is new."""
        for name, (axes, array) in before.kept.get((self.passing + self.prefix, part), {}).items():
            self.axes[name] = axes
            shape = [self.length if index.role == "new" else self.extent(index) for index in axes]
            room = [(0, long - short) for long, short in zip(shape, array.shape, strict=True)]
            known, now = np.pad(array.astype(float), room, constant_values=np.nan), self.values.get(name)
            if now is not None and now.shape == known.shape and any(index.role == "new" for index in axes):
                known = np.where(np.isnan(known), now, known)  # what units in parallel all read is made already
            self.values[name] = known

    def keep(self, line: Line, array: Array) -> Array:
        """What a store line keeps. What was kept of a token or an entry stays as it was; what has one size whatever the
        length is replaced, and through it, so much of its right side stays known."""
        left = line.statement.left.name
        if self.before is not None and not isinstance(line.kept, Constant):
            old = self.before.kept[self.passing + self.prefix, line.part][left].array
            there = tuple(slice(0, size) for size in old.shape)
            array = array.copy()
            array[there] = np.where(np.isnan(old), array[there], old)
        known = self.kept.setdefault((self.passing + self.prefix, line.part), {})
        for name, read in self.read.items() if isinstance(line.kept, Constant) else ():
            earlier = known[name].array if name in known else np.nan
            known[name] = Known(self.axes[name], np.where(read, self.values[name], earlier))
        known[left] = Known(tuple(line.scope[letter] for letter in line.statement.left.indices), array)
        return array

    def new_letter(self, letters: Iterable[str]) -> str | None:
        """Which of the letters runs over what has one place alone."""
        return next((letter for letter in letters if self.line.scope[letter].role in self.only), None)

    def place_of(self, letter: str) -> int:
        """That place."""
        return self.only[self.line.scope[letter].role]

    def assign(self, name: str, letters: tuple[str, ...], array: Array) -> None:
        """A value's new meaning; within a walk the new token's alone."""
        self.axes[name] = tuple(self.line.scope[letter] for letter in letters)
        moving = self.new_letter(letters)
        if moving is None:
            self.values[name] = array
            return
        axis, length = letters.index(moving), self.whole_extent(self.line.scope[moving])
        whole = [length if letter == moving else n for letter, n in zip(letters, array.shape, strict=True)]
        old = self.values.get(name)
        new = np.full(whole, np.nan) if old is None or list(old.shape) != whole else old.copy()
        new[(slice(None),) * axis + (self.place_of(moving),)] = array[(slice(None),) * axis + (0,)]
        self.values[name] = new

    def run(self, line: Line) -> None:
        """One line."""
        self.line = line
        tree = sentence(line.text)
        self.read = {}
        allowed = self.all_of(conditions(str(line.condition or "")))
        self.allowed = allowed
        if isinstance(tree.left, Chosen):
            assert isinstance(tree.right, (Call, Chosen))
            found = self.set(tree.right)
            assert set(found.letters) == set(tree.left.indices), line.text
            self.sets[tree.left.name] = found
            return
        letters = tuple(index.name for index in tree.left.indices if isinstance(index, Name))
        assert len(letters) == len(tree.left.indices), line.text
        self.letters = tree.letters
        value = self.value(tree.right)
        new = self.new_letter(value.letters)
        if new is not None and new not in letters:
            rest = tuple(letter for letter in value.letters if letter != new)
            value = Value(rest, value.over((*rest, new))[..., 0])
        assert set(value.letters) <= set(letters), (line.text, value.letters)
        shape = tuple(self.size(letter) for letter in letters)
        array = np.broadcast_to(value.over(letters), shape).astype(float)
        if allowed is not None and set(allowed.letters) <= set(letters):
            array = np.where(allowed.over(letters), array, np.nan)
        if tree.adds:
            array = self.present(tree.left.name, letters) + array
        if line.stored is not None:
            array = self.keep(line, array)
        self.assign(tree.left.name, letters, array)
        if line.kind == "sum" and not self.only:
            self.record(tree.right, letters)
        if tree.left.name in ("α", "α_C", "α_B") and "softmax" in line.text:
            if tree.left.name == "α":
                self.softmaxes.append([])
            self.softmaxes[-1].append(Value(letters, array))

    def present(self, name: str, letters: tuple[str, ...]) -> Array:
        """What a line adds to: in a step, of the new token alone."""
        array = self.values[name]
        new = self.new_letter(letters)
        if new is None:
            return array
        return array.take([self.place_of(new)], axis=letters.index(new))

    def record(self, right: Node, letters: tuple[str, ...]) -> None:
        """The sum of a line apart from what is added to it."""
        while isinstance(right, Operation):
            right = right.operands[0]
        total = self.value(right)
        for factor in self.line.statement.factors:
            if factor.name in self.line.weights:
                there = Value(letters, np.broadcast_to(total.over(letters), tuple(map(self.size, letters))))
                self.products.append(Product(self.key(factor.name), self.line, there, self.sets.get("R")))

    def key(self, name: str) -> str:
        weight = self.line.weights[name]
        return weight.key if weight.tied or weight.shared or weight.borrowed else self.prefix + weight.key

    def size(self, letter: str, line: Line | None = None) -> int:
        """What a letter runs over here."""
        return self.extent((line or self.line).scope[letter])

    def extent(self, index: Index) -> int:
        return 1 if index.role in self.only else self.whole_extent(index)

    def whole_extent(self, index: Index) -> int:
        match index.role:
            case "new" | "past":
                return self.length
            case "source":
                return self.source_length
            case "images" | "canvas":
                return 0
            case "frames":
                return self.length * index.size
            case "entries":
                whole = -(-self.length // index.every) if index.symbol.startswith("⌈") else self.length // index.every
                return whole + index.symbol.endswith("+1")
        return index.size

    # the nodes of the tree

    def value(self, node: Node) -> Value:
        match node:
            case Number():
                return Value((), np.array(node.value))
            case Name():
                return self.name(node.name)
            case Reference():
                return self.reference(node)
            case Operation():
                return self.operation(node)
            case Pieces():
                return self.pieces(node)
            case Call():
                return self.over(node) if node.over else self.call(node)
            case Comparison():
                return self.comparison(node)
            case Membership():
                return self.membership(node)
            case Chosen():
                raise AssertionError(f"{self.line.text}: a set is no number")

    def name(self, name: str) -> Value:
        if name in getattr(self, "letters", {}):
            return self.value(self.letters[name])
        if name in self.line.scope:
            numbers = np.arange(self.size(name))
            if self.line.scope[name].role in self.only:
                numbers = np.array([self.place_of(name)])
            return Value((name,), numbers)
        new = self.length if self.before is None else 1
        named = {"S": self.length, "T": new, "T_P": self.prompt, **self.equations.symbols, **self.named}
        constant = self.line.constants.get(name, named.get(name))
        assert isinstance(constant, (int, float)), f"{self.line.text}: {name} is not defined"
        return Value((), np.array(constant))

    def reference(self, node: Reference) -> Value:
        array = self.array(node)
        assert array.ndim == len(node.indices), (self.line.text, node.name)
        at = [self.value(index) for index in node.indices]
        letters = union(at)
        inside: Any = True
        places = []
        for index, size in zip(at, array.shape, strict=True):
            place = index.over(letters)
            there = (place >= 0) & (place < size)
            inside = inside & there
            places.append(np.where(there, place, 0).astype(int))
        found = array[tuple(places)] if places else array
        if self.line.kind == "store" and node.name in self.values:
            read = self.read.setdefault(node.name, np.zeros(array.shape, bool))
            read[tuple(np.broadcast_arrays(*places, inside))[:-1]] |= np.broadcast_arrays(*places, inside)[-1]
        return Value(letters, np.where(inside, found, np.nan))

    def array(self, node: Reference) -> Array:
        if node.name in self.line.weights:
            reference = next(ref for ref in self.line.statement.references if ref.name == node.name)
            shape = tuple(self.line.scope[letter].size for letter in reference.indices)
            self.values[node.name] = self.weights[self.key(node.name)].reshape(shape)
        elif node.name in self.line.constants:
            return np.array(self.line.constants[node.name])
        elif node.name.endswith("_last"):
            return self.of_the_last_pass(node)
        found = self.values[node.name] if node.name in self.values else self.left.get(node.name)
        assert isinstance(found, np.ndarray), f"{self.line.text}: {node.name} is not defined"
        return found

    def of_the_last_pass(self, node: Reference) -> Array:
        """What the last pass of a loop has stored of earlier tokens."""
        name = node.name.removesuffix("_last")
        letters = next(ref.indices for ref in self.line.statement.references if ref.name == node.name)
        found = np.full([self.size(letter) for letter in letters], np.nan)
        if self.before is not None:
            old = self.before.kept[self.prefix, self.line.part][name].array
            found[tuple(slice(0, size) for size in old.shape)] = old
        return found

    def operation(self, node: Operation) -> Value:
        values = [self.value(operand) for operand in node.operands]
        match node.operator:
            case "minus":
                return together(np.negative, *values)
            case "√":
                return together(np.sqrt, *values)
            case "⌊":
                return together(np.floor, *values)
        return together(BINARY[node.operator], *values)

    def pieces(self, node: Pieces) -> Value:
        found = self.value(node.otherwise)
        for piece, when in reversed(node.pieces):
            allowed = self.all_of(when)
            assert allowed is not None
            found = together(np.where, allowed, self.value(piece), found)
        return found

    def call(self, node: Call) -> Value:
        if node.function == "token":
            return together(self.token_at, self.value(node.arguments[0]))
        if node.function == "hashed":
            return together(np.vectorize(self.hashed), *(self.value(argument) for argument in node.arguments))
        if node.function == "frame":
            return together(self.frame, *(self.value(argument) for argument in node.arguments))
        if node.function in ("image", "canvas", "guessed"):  # of none
            return together(lambda *places: places[0], *(self.value(argument) for argument in node.arguments))
        if node.function == "drafted":
            return together(lambda t: self.drafted[t], self.value(node.arguments[0]))
        if node.function == "slot":
            return together(self.slot, self.value(node.arguments[0]))
        if node.function == "hidden":
            return together(self.hidden, *(self.value(argument) for argument in node.arguments))
        if node.function in ("element", "place"):
            return self.place(node)
        values = [self.value(argument) for argument in node.arguments]
        if node.function == "keep":
            return together(lambda *_: np.ones(()), *values)
        return together(NUMERIC[node.function], *values)

    def token_at(self, place: Array) -> Array:
        """The number of a token; behind the last one, where nothing is read, the last one's."""
        return self.tokens[np.minimum(place, len(self.tokens) - 1).astype(int)]

    def hashed(self, place: int, head: int) -> int:
        """The row of a head for the n-gram that ends at a position, as its definition says it."""
        mixer = next(m for m in sublayers(self.block) if m.section == parts(self.block)[self.line.part])
        assert isinstance(mixer, Engram)
        h, ended, found = mixer.hashing, False, 0
        for far in range(h.tokens(head)):
            token = int(self.tokens[place - far]) if far <= place else h.end or 0
            ended = ended or (far > 0 and token == h.end)
            found ^= (h.end or 0 if ended else token) * h.multipliers[far]
        return found % h.rows[head] + sum(h.rows[:head])

    def frame(self, place: Array, channel: Array) -> Array:
        """What an encoder hears there, nothing beyond both ends."""
        inside = (place >= 0) & (place < len(self.tokens))
        return np.where(inside, self.tokens[np.where(inside, place, 0).astype(int), channel], 0.0)

    def slot(self, place: Array) -> Array:
        """A token of the block that is drafted."""
        target = self.architecture.target
        assert target is not None
        return stand_in_block(target, self.architecture.v, self.tokens[None])[0][place]

    def hidden(self, place: Array, layer: Array, channel: Array) -> Array:
        """What the target's layers make of a position: what stands for it in the witness."""
        target = self.architecture.target
        assert target is not None
        states = stand_ins(target, self.tokens[None], 0)[0].reshape(-1, target.layers, target.d)
        return states[place, layer, channel]

    def place(self, node: Call) -> Value:
        """element(A(t), j) and place(e, A(t))."""
        (chosen,) = (argument for argument in node.arguments if isinstance(argument, Chosen))
        (other,) = (argument for argument in node.arguments if not isinstance(argument, Chosen))
        found, index = self.set(chosen), self.value(other)
        members = Value((*found.letters, "·"), found.members)
        letters = (*union([Value(found.letters, found.members[..., 0]), index]), "·")
        if node.function == "element":
            full = np.broadcast_arrays(members.over(letters), index.over(letters)[..., :1])
            place = full[1][..., :1].astype(int)
            return Value(letters[:-1], np.take_along_axis(full[0], place, axis=-1)[..., 0])
        same = members.over(letters) == index.over(letters)
        return Value(letters[:-1], np.where(same.any(-1), same.argmax(-1), -1))

    def comparison(self, node: Comparison) -> Value:
        values = [self.value(operand) for operand in node.operands]
        letters = union(values)
        found: Any = True
        for a, operator, b in zip(values, node.operators, values[1:], strict=False):
            found = found & COMPARED[operator](a.over(letters), b.over(letters))
        return Value(letters, np.asarray(found))

    def membership(self, node: Membership) -> Value:
        found, element = self.set(node.set), self.value(node.element)
        letters = union([Value(found.letters, found.members[..., 0]), element])
        members = Value((*found.letters, "·"), found.members).over((*letters, "·"))
        return Value(letters, (members == element.over(letters)[..., None]).any(-1))

    def all_of(self, nodes: Iterable[Node]) -> Value | None:
        values = [self.value(node) for node in nodes]
        if not values:
            return None
        return together(lambda *arrays: np.logical_and.reduce(np.broadcast_arrays(*arrays)), *values)

    def set(self, node: Node) -> Set:
        if isinstance(node, Chosen):
            found = self.sets[node.name] if node.name in self.sets else self.left[node.name]
            assert isinstance(found, Set), f"{self.line.text}: {node.name} is no set"
            return Set(node.indices, found.members)
        assert isinstance(node, Call)
        k = int(self.value(node.arguments[0]).array)
        (letter,) = node.over
        if node.function == "listed":
            token = self.value(node.arguments[1])
            return Set(
                ("t",),
                self.listed(f"{self.prefix}{self.line.part}.", token.over(("t",)).astype(int), k, self.size(letter)),
            )
        assert node.function == "top"
        value = self.existing(node, 1)
        rest = tuple(other for other in value.letters if other != letter)
        scores = np.broadcast_to(value.over((*rest, letter)), value.over((*rest, letter)).shape)
        order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), axis=-1, kind="stable")[..., :k]
        missing = np.isnan(np.take_along_axis(scores, order, axis=-1))
        return Set(rest, np.where(missing, -1, order))

    # over indices

    def existing(self, node: Call, argument: int = 0) -> Value:
        """A function's argument where it exists: within the function's conditions, and the line's."""
        value = self.value(node.arguments[argument])
        conditions_ = [self.all_of(node.where)]
        missing = [letter for letter in node.over if letter not in value.letters]
        if missing:
            letters = (*value.letters, *missing)
            shape = tuple(self.size(letter) if letter in missing else n for letter, n in zip(
                letters, (*value.array.shape, *missing), strict=True))  # fmt: skip
            value = Value(letters, np.broadcast_to(value.over(letters), shape))
        allowed = self.allowed
        if allowed is not None and (
            set(allowed.letters) <= set(value.letters) or set(node.over) & set(allowed.letters)
        ):
            conditions_.append(self.allowed)
        for condition in conditions_:
            if condition is not None:
                value = together(lambda x, there: np.where(there, x, np.nan), value, condition)
        return value

    def over(self, node: Call) -> Value:
        if node.function in ("rotate", "rotate_adjacent"):
            return self.rotated(node)
        value = self.existing(node)
        rest = tuple(letter for letter in value.letters if letter not in node.over)
        inner = tuple(node.over)
        array = value.over((*rest, *inner)).astype(float)
        axes = tuple(range(len(rest), array.ndim))
        there = ~np.isnan(array)
        full = np.where(there, array, 0.0)
        count = np.maximum(there.sum(axes, keepdims=True), 1)
        mean = full.sum(axes, keepdims=True) / count
        any_ = there.any(axes)

        def reduced(found: Array) -> Value:
            return Value(rest, np.where(any_, found, np.nan))

        eps = self.line.constants.get("ε", 0.0)
        assert isinstance(eps, (int, float))
        match node.function:
            case "Σ":
                return Value(rest, full.sum(axes))
            case "mean":
                return reduced(mean.reshape(any_.shape))
            case "rms":
                return reduced(np.sqrt((full**2).sum(axes) / count.reshape(any_.shape)))
            case "std":
                square = np.where(there, (array - mean) ** 2, 0.0).sum(axes) / count.reshape(any_.shape)
                return reduced(np.sqrt(square))
            case "largest":
                return reduced(np.where(there, array, -np.inf).max(axes))
            case "best_two":
                return reduced(np.sort(np.where(there, array, -np.inf), axis=-1)[..., -2:].sum(-1))
            case "l2norm":
                return Value((*rest, *inner), array / np.sqrt((full**2).sum(axes, keepdims=True) + eps))
            case "rmsnorm":
                normed = array / np.sqrt((full**2).sum(axes, keepdims=True) / count + eps)
                return Value((*rest, *inner), normed)
            case "layernorm":
                square = np.where(there, (array - mean) ** 2, 0.0).sum(axes, keepdims=True) / count
                return Value((*rest, *inner), (array - mean) / np.sqrt(square + eps))
            case "softmax":
                return self.softmax(node, array, rest, axes)
            case "sinkhorn":
                return Value((*rest, *inner), self.sinkhorn(array, int(self.value(node.arguments[1]).array), eps))
        raise AssertionError(f"{self.line.text}: no function {node.function}")

    def softmax(self, node: Call, array: Array, rest: tuple[str, ...], axes: tuple[int, ...]) -> Value:
        finite = np.where(np.isnan(array), -np.inf, array)
        most = finite.max(axes, keepdims=True)
        most = np.where(np.isfinite(most), most, 0.0)
        shares = np.exp(finite - most)
        total = shares.sum(axes, keepdims=True)
        for beside in node.beside:
            extra = self.value(beside)
            more = tuple(letter for letter in extra.letters if letter not in rest)
            other = np.exp(extra.over((*rest, *more)) - most.reshape(most.shape[: len(rest)] + (1,) * len(more)))
            summed = np.nansum(other, axis=tuple(range(len(rest), other.ndim)))
            total = total + summed.reshape(summed.shape + (1,) * len(axes))
        return Value((*rest, *node.over), np.where(np.isnan(array), np.nan, shares / total))

    @staticmethod
    def sinkhorn(array: Array, iterations: int, eps: float) -> Array:
        array = array / (array.sum(-2, keepdims=True) + eps)
        for _ in range(iterations - 1):
            array = array / (array.sum(-1, keepdims=True) + eps)
            array = array / (array.sum(-2, keepdims=True) + eps)
        return array

    def rotated(self, node: Call) -> Value:
        channel, pair = node.over
        value, angle, *more = (self.value(argument) for argument in node.arguments)
        given = [float(found.array) for found in more]
        factor, first = (*given, *(1.0, 0.0)[len(given) :])
        pairs, start = self.size(pair), int(first)
        rest = union([Value(value.letters, value.array), angle])
        rest = tuple(letter for letter in rest if letter not in (channel, pair))
        x = np.array(value.over((*rest, channel)), float)
        turn = angle.over((*rest, pair))
        cos, sin = np.cos(turn) * factor, np.sin(turn) * factor
        near = node.function == "rotate_adjacent"
        one = slice(start, start + 2 * pairs, 2) if near else slice(start, start + pairs)
        two = slice(start + 1, start + 2 * pairs, 2) if near else slice(start + pairs, start + 2 * pairs)
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape[:-1], cos.shape[:-1]) + x.shape[-1:]).copy()
        a, b = x[..., one].copy(), x[..., two].copy()
        x[..., one], x[..., two] = a * cos - b * sin, b * cos + a * sin
        return Value((*rest, channel), x)


#: what a state is walked along
MOVING = frozenset({"new", "slots"})


def is_of_a_state(line: Line) -> bool:
    """Whether a value that has no t is made of a token's: of each in turn."""
    tree = sentence(line.text)
    if line.kind == "store" or not isinstance(tree.left, Reference):
        return False
    return Name("t") not in tree.left.indices and Name("t") in list(walk(tree.right))


def with_states(lines: list[Line], at: int) -> list[Line]:
    """The line there; where it has a state of its sublayer, all lines up to the last that has one."""
    part = lines[at].part
    end = next((n for n in range(at, len(lines)) if lines[n].part != part), len(lines))
    states = {line.statement.left.name for line in lines[at:end] if is_of_a_state(line)}
    mentions = [n for n in range(at, end) if states & {reference.name for reference in lines[n].statement.references}]
    return lines[at : mentions[-1] + 1] if mentions and mentions[0] == at else lines[at : at + 1]


def of_itself(line: Line) -> bool:
    """Whether it says a value by what it is at other tokens."""
    left = line.statement.left
    others = [ref for ref in line.statement.factors if ref.name == left.name and "new" not in line.roles(ref)]
    return bool(others) and "new" in line.roles(left)


def parts(block: Block) -> dict[str, str]:
    """The section of every sublayer, by the name that its lines go under: attn, mlp, attn2, …"""
    seen: dict[str, int] = {}
    found = {}
    for mixer in sublayers(block):
        kind: str = stem(mixer)
        seen[kind] = number = seen.get(kind, 0) + 1
        found[kind if number == 1 else f"{kind}{number}"] = mixer.section
    return found
