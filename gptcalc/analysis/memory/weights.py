"""The bytes of a model's weights, tensor by tensor, as a data type or a quantiser stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from math import prod

from msgspec.structs import replace

from gptcalc.analysis.memory import mixes, places
from gptcalc.analysis.memory.forms import checked
from gptcalc.analysis.memory.held import ANYWHERE, BEHIND, At, Divided, Share, by_type, known
from gptcalc.analysis.memory.result import Tensors
from gptcalc.analysis.memory.sharding import VOCABULARY_MULTIPLE, Layout, blocks_between, local, stage_ranges
from gptcalc.analysis.memory.twin import twin
from gptcalc.analysis.params import Entry, by_stage, ledger
from gptcalc.architecture import (
    Architecture,
    Block,
    LatentAttention,
    Llama3,
    LongRope,
    Proportional,
    Rope,
    rotated,
)
from gptcalc.dtypes import FP32, MXFP4, DType, Format, Packing, weight_format
from gptcalc.equations import Equations, Tensor, Weight, equations
from gptcalc.equations.roles import STACKED, Use
from gptcalc.errors import InputError

#: the table that is the output matrix as well, where that is tied
TIED = "embedding.token"

#: the matrices that make keys and values of latents
OF_LATENTS: frozenset[Use] = frozenset({"latent keys", "latent values"})


class Weights:
    """A model's weights in one format, split one way."""

    def __init__(
        self,
        architecture: Architecture,
        dtype: str,
        parallel: Layout,
        engine: str = "ideal",
        tiles: Mapping[str, int] = {},
        modules: bool = False,
        filed: bool = False,
    ) -> None:
        """`filed`: as the files at hand have them, where there are any."""
        self.architecture = architecture
        self.parallel = parallel
        self.multiple = VOCABULARY_MULTIPLE.get(engine, 1)
        self.tiles = tiles  # what an engine pads a matrix's inputs to, by the format
        self.model: Equations = equations(architecture)
        entries = list(ledger(self.model))
        of_stage = by_stage(entries)
        self.of_block = {stage.block: of_stage.get(stage, []) for stage in self.model.layers}
        self.embedding = [e for e in entries if e.stage is self.model.embedding]
        self.output = [e for e in entries if e.stage is self.model.output]
        self.modules = [e for e in entries if modules and e.stage is self.model.mtp]
        self.encoder = [e for e in entries if e.stage.runs == "encoder"]
        self.has_selection = any(e.tensor.weight.use == "selection" for e in entries)
        self.has_experts = any(e.tensor.weight.component == "experts" and e.tensor.kind == "matrix" for e in entries)
        files = architecture.storage.files if filed else None
        self.files = {} if files is None else files.tensors
        apart = architecture.storage.apart if filed and dtype == architecture.storage.weights else None
        self.apart = {} if apart is None or self.files else apart.tensors
        self.divided: dict[int, Divided] = {}  # which all formats share
        self._set_format(dtype)

    def in_format(self, dtype: str) -> Weights:
        """The same weights in another format."""
        other = twin(self)
        other.files, other.apart = {}, {}
        other._set_format(dtype)
        return other

    def _set_format(self, dtype: str) -> None:
        self.dtype = checked(dtype)
        mix = mixes.named(self.dtype)
        self.format = weight_format(self.dtype) if mix is None else None
        if mix is not None:
            self.mix = mix.name
            self.traits = mixes.traits(self.architecture, mix.imatrix)
            self.by_hand = None
            if mix.types:
                from gptcalc.analysis.memory.by_hand import ByHand  # patterns are slow to import

                self.by_hand = ByHand(mix)
                self.by_hand.check(self._names())

    @property
    def forms(self) -> tuple[Format, ...]:
        """The format and those of single components; (): GGUF types."""
        if self.format is None:
            return ()
        return (*self.format.all, *(known(name) for name in sorted(set(self.apart.values()))))

    @property
    def assumed(self) -> str | None:
        """What the format leaves open, where it does: then what tensors take is an estimate."""
        if self.files:
            return None
        if any(form.mean for form in self.forms):
            return f"{self.dtype}'s bits a weight are a mean; scales and small tensors come on top"
        if self.has_experts and not self.apart and any(form.packed == "all" for form in self.forms):
            return "routers of some of MLX's classes are packed in 8 bits whatever the others are"
        return None

    def types(self) -> str:
        """The types in the files at hand, each with its bytes, the largest in front."""
        return by_type(self.files.values())

    def by_layer(self) -> list[places.Progression]:
        """Where the tensors stand whose GGUF type depends on it."""
        moving = mixes.by_layer(self.mix)
        if not moving:
            return []
        numbered = {
            block: [n for n in map(self._numbered, own) if n is not None and n.use in moving]
            for block, own in self.of_block.items()
        }
        return places.progressions(self.architecture, numbered, self.mix, self.traits)

    def _numbered(self, entry: Entry) -> places.Numbered | None:
        weight = entry.tensor.weight
        if entry.tensor.kind != "matrix":
            return None
        return places.Numbered(weight.key, self._rule(weight), weight.use not in ("queries", "keys", "latent keys"))

    def _rule(self, weight: Weight) -> mixes.Rule:
        """What llama.cpp's quantiser takes a matrix for."""
        if weight.component == "recurrent":
            return "other"
        if self.traits.fused and weight.use in ("queries", "keys", "values"):
            return "qkv"
        if self.traits.latent_whole and weight.use in OF_LATENTS:
            return "values"
        return "keys" if weight.use == "index keys" else weight.use

    @cached_property
    def absorbed(self) -> dict[str, Tensor]:
        """The matrices of latent attention as its absorbed form multiplies them, which is how GGUF stores them."""
        lines = [line for stage in equations(self.architecture, "absorbed").main for line in stage.lines]
        tensors = (tensor for line in lines for tensor in line.tensors() if tensor.kind == "matrix")
        return {t.weight.key: t for t in tensors if t.weight.use in OF_LATENTS}

    def stage(self, number: int) -> list[Share]:
        """What each device of a pipeline stage holds: its layers; the embedding first, the output last."""
        last = self.parallel.pp - 1
        start, stop = stage_ranges(self.architecture.n_layers, self.parallel.pp)[number]
        shares = []
        if number == 0:
            shares += [self.share(entry, entry.copies) for entry in (*self.encoder, *self.embedding)]
        shares += self.layers(start, stop)
        if number == last:
            shares += [self.share(entry, 1) for entry in self.output + self.second_head()]
            shares += [self.share(entry, entry.copies) for entry in self.modules]
            if last > 0:  # a tied matrix is needed there as well
                shares += [self.share(e, 1, again=True) for e in self.embedding if e.tensor.weight.key in self.tied]
        return shares

    @cached_property
    def tied(self) -> set[str]:
        """Tables that the output multiplies with."""
        return {t.weight.key for line in self.model.output.lines for t in line.tensors() if t.weight.tied}

    def second_head(self) -> list[Entry]:
        """The output matrix that files have although it is tied: GGUF's where the published files have it too, those of
        other formats where they pack it in a way of its own."""
        if self.format is None:
            has_two = self.architecture.storage.tied_head
        else:
            has_two = self.format.output is not None and TIED in self.tied
        if not has_two:
            return []
        (table,) = (entry for entry in self.embedding if entry.tensor.weight.key == TIED)
        weight = replace(table.tensor.weight, key="head.weight", plain="head.weight", component="output", use="logits")
        return [replace(table, tensor=replace(table.tensor, weight=weight))]

    def factors(self) -> Tensors | None:
        """What GGUF files have beside the weights: factors of the rotation's frequencies, where those are stretched."""
        if self.format is not None:
            return None
        for mixer in self.architecture.mixers():
            rope = getattr(mixer, "rope", None)
            if isinstance(rope, Rope) and isinstance(rope.scaling, (Llama3, LongRope, Proportional)):
                width = mixer.d_rope if isinstance(mixer, LatentAttention) else getattr(mixer, "d_head", 0)
                pairs = width // 2 if isinstance(rope.scaling, Proportional) else rotated(rope, width) // 2
                lists = 2 if isinstance(rope.scaling, LongRope) else 1
                return Tensors("rope factors", "other", FP32.name, lists, pairs, FP32.block_bytes * pairs)
        return None

    def layers(self, start: int, stop: int) -> Iterator[Share]:
        """What a device holds of the layers from `start` up to `stop`."""
        if start >= stop:
            return
        if self.format is None and not self.files and self.by_hand is not None:
            yield from self._one_by_one(start, stop)
            return
        placed = self._placed(start, stop) if self.format is None and not self.files else {}
        for block, times in blocks_between(self.architecture, start, stop).items():
            for entry in self.of_block[block]:
                if self.files and not entry.tensor.weight.shared:
                    for stored, count in self._filed(entry, block, start, stop).items():
                        yield self.share(entry, count, stored=stored)
                    continue
                if self.apart and not entry.tensor.weight.shared:
                    for form, count in self._named(entry, block, start, stop).items():
                        yield self.share(entry, count, At(form=form))
                    continue
                types = placed.get((block, entry.tensor.weight.key))
                if types is None:
                    yield self.share(entry, 1 if entry.tensor.weight.shared else times, ANYWHERE)
                elif entry.tensor.weight.shared:
                    yield self.share(entry, 1, next(iter(types)))
                else:
                    for at, count in types.items():
                        yield self.share(entry, count, at)

    def _one_by_one(self, start: int, stop: int) -> Iterator[Share]:
        """The tensors of these layers, whose types may depend on each layer's number."""
        found: dict[tuple[Block, int], dict[At, int]] = {}
        where = self._numbers(start, stop)
        for layer, block in enumerate(islice(self.architecture.blocks(), start, stop), start):
            for number, entry in enumerate(self.of_block[block]):
                at = where.get((block, entry.tensor.weight.key, layer), ANYWHERE)
                at = replace(at, given=self._given(entry, layer))
                counts = found.setdefault((block, number), {})
                counts[at] = 1 if entry.tensor.weight.shared else counts.get(at, 0) + 1
        for (block, number), counts in found.items():
            for at, count in counts.items():
                yield self.share(self.of_block[block][number], count, at)

    def _numbers(self, start: int, stop: int) -> dict[tuple[Block, str, int], At]:
        """Of the tensors whose GGUF type depends on their layer, and of each layer, which of its use it is."""
        places_ = self.by_layer()
        values = sum(place.times for place in places_ if place.use in ("values", "qkv") and place.counts)
        return {
            (place.block, place.key, place.layer + r * place.layer_step): At(
                place.i + r * place.i_step, values if place.use in ("values", "qkv") else self.traits.n_layers
            )
            for place in places_
            for r in place.between(start, stop)
        }

    def _given(self, entry: Entry, layer: int) -> DType | None:
        """The type that was asked for by a pattern of names."""
        if self.format is not None or self.by_hand is None:
            return None
        return self.by_hand.of(entry.tensor, self._rule(entry.tensor.weight), layer)

    def _names(self) -> Iterator[str]:
        """What llama.cpp calls the tensors that its quantiser touches."""
        from gptcalc.analysis.memory.by_hand import called, is_touched

        inner = enumerate(self.architecture.blocks())
        numbered = [(entry, layer) for layer, block in inner for entry in self.of_block[block]]
        outer = (*self.encoder, *self.embedding, *self.output, *self.modules)
        for entry, layer in (*numbered, *((entry, self._outside(entry)) for entry in outer)):
            rule = self._rule(entry.tensor.weight)
            if is_touched(entry.tensor, rule):
                yield called(entry.tensor, rule, layer)

    def _outside(self, entry: Entry) -> int:
        """The number of a tensor's layer that is none of the main model's."""
        return self.architecture.n_layers if entry.stage is self.model.mtp else 0

    def _named(self, entry: Entry, block: Block, start: int, stop: int) -> dict[str, int]:
        """How often a tensor of these layers has which format of its own; "": the one of most."""
        found: dict[str, int] = {}
        for number, other in enumerate(islice(self.architecture.blocks(), stop)):
            if number >= start and other == block:
                form = self.apart.get(f"layers.{number}.{entry.tensor.weight.key}", "")
                found[form] = found.get(form, 0) + 1
        return found

    def _filed(self, entry: Entry, block: Block, start: int, stop: int) -> dict[tuple[str, int], int]:
        """How often a tensor of these layers has which type and how many bytes in the files at hand."""
        found: dict[tuple[str, int], int] = {}
        for number, other in enumerate(islice(self.architecture.blocks(), stop)):
            if number >= start and other == block:
                stored = self.files[f"layers.{number}.{entry.tensor.weight.key}"]
                found[stored] = found.get(stored, 0) + 1
        return found

    def _placed(self, start: int, stop: int) -> dict[tuple[Block, str], dict[At, int]]:
        """How often each tensor whose GGUF type depends on its layer stands where, places of one type together."""
        found: dict[tuple[Block, str], dict[At, int]] = {}
        first: dict[tuple[mixes.Rule, DType], At] = {}
        for place, type_, at, times in self.moving(start, stop):
            where = first.setdefault((place.use, type_), at)
            counts = found.setdefault((place.block, place.key), {})
            counts[where] = counts.get(where, 0) + times
        return found

    def moving(self, start: int, stop: int) -> Iterator[tuple[places.Progression, DType, At, int]]:
        """Tensors whose GGUF type depends on their layer: each type that one has there, were its rows whole blocks, a
        place at which it does, and how often."""
        all_places = self.by_layer()
        values = sum(place.times for place in all_places if place.use in ("values", "qkv") and place.counts)
        for place in all_places:
            n = values if place.use in ("values", "qkv") else self.traits.n_layers
            for type_, i, times in places.kinds(self.mix, place, place.between(start, stop), n, self.traits):
                yield place, type_, At(i, n), times

    def share(
        self,
        entry: Entry,
        times: int,
        at: At | None = None,
        again: bool = False,
        stored: tuple[str, int] | None = None,
    ) -> Share:
        """What a device has of a tensor, `at` a layer or outside of them; `stored`: its type and bytes in the files."""
        if at is None:
            at = At(given=self._given(entry, self._outside(entry)), form=self.apart.get(entry.tensor.weight.key, ""))
        if stored is None:
            stored = self.files.get(entry.tensor.weight.key)
        divided = self._divided(entry)
        whole, mine = divided.whole, divided.mine
        row = undivided = self._row(entry, mine, times, at, stored)
        if again or mine != whole:
            undivided = self._row(entry, whole, 0 if again else times, at, stored)
            self._check_blocks(entry, whole, mine, at)
        fused = self.format is None and self._rule(entry.tensor.weight) == "qkv"
        return Share(row, undivided, entry.tensor, mine, entry.stage.name, fused)

    def _divided(self, entry: Entry) -> Divided:
        """How a tensor is split, found once for all formats."""
        found = self.divided.get(id(entry))
        if found is None:
            indices = entry.tensor.indices
            mine = local(indices, self.parallel, self.multiple)
            found = Divided(entry, [index.size for index in indices], mine)
            self.divided[id(entry)] = found  # which holds the entry, so that no other one gets its id
        return found

    def _row(self, entry: Entry, sizes: list[int], times: int, at: At, stored: tuple[str, int] | None) -> Tensors:
        if stored is None:
            type_, size = self._stored(entry, sizes, at)
        else:  # of a part of it as large a part, rounded up
            type_, size = stored[0], -(-stored[1] * prod(sizes) // entry.tensor.params)
        weight = entry.tensor.weight
        return Tensors(weight.key, weight.component, type_, times, prod(sizes), size)

    def in_header(self, entry: Entry) -> bool:
        """Whether a tensor's numbers stand in a GGUF file's header (llama.cpp's conversion/, xielu)."""
        return self.format is None and entry.tensor.weight.use == "slope"

    def _stored(self, entry: Entry, sizes: list[int], at: At) -> tuple[str, int]:
        """A tensor's type and bytes."""
        if self.in_header(entry):
            return FP32.name, 0
        if self.format is None:
            copies, inputs, outputs = self._matrix(entry, sizes)
            type_ = self.gguf_type(entry, inputs, at)
            if entry.tensor.weight.use == "tokens":  # converters give every table of tokens the vocabulary's rows
                rows = entry.tensor.indices[0].size
                outputs = outputs * max(rows, self.architecture.v) // rows
            return type_.name, copies * outputs * type_.row_bytes(inputs)
        name, how = self.stored_as(entry, at)
        if isinstance(how, DType):
            return name, prod(sizes) * how.block_bytes
        copies, inputs, outputs = self._matrix(entry, sizes)
        tile = self.tiles.get(name, 1)
        return name, copies * how.bytes(-(-inputs // tile) * tile, outputs)

    def stored_as(self, entry: Entry, at: At = ANYWHERE) -> tuple[str, Packing | DType]:
        """The name of a tensor's format, which is none of GGUF's; how its matrices are packed, or its numbers' type."""
        assert self.format is not None
        form = self._form(entry, self.format, at)
        if self._is_packed(entry, form, at):
            packing = form.of(entry.tensor.weight.component)
            return form.plain, packing.behind() if self._is_behind(entry) else packing
        if form.output is not None and entry.tensor.weight.use == "logits":
            return form.plain, form.output
        wide = FP32 if entry.tensor.weight.use == "selection" else form.wide  # as all checkpoints have it
        return wide.name, wide

    def _is_behind(self, entry: Entry) -> bool:
        """Whether a matrix is a part of a larger one in the published class, and not the first."""
        weight = entry.tensor.weight
        return any((weight.component, weight.use) in BEHIND[word] for word in self.architecture.storage.fused)

    def _form(self, entry: Entry, format: Format, at: At) -> Format:
        """The format of a tensor, of its component, or of the module that it is in."""
        if at.form:
            return known(at.form)
        return format.at(entry.tensor.weight.component, entry.stage is self.model.mtp)

    def _is_packed(self, entry: Entry, format: Format, at: At) -> bool:
        """Whether a quantiser touches this tensor. Embeddings, output, norms, routers and single-output gates stay,
        unless the config names them."""
        component = entry.tensor.weight.component
        if at.form:
            return format.packed != "none"
        if format is not self.format and component in ("router", "embedding", "output"):  # asked for by name
            learned = entry.tensor.kind == "matrix" or entry.tensor.weight.use == "tokens"
            return format.packed != "none" and learned
        if format.packed == "all":
            if component == "router" and self.has_selection:
                return False
            return entry.tensor.kind == "matrix" or entry.tensor.weight.use == "tokens"
        if format.packed == "none" or entry.tensor.kind != "matrix" or component in ("embedding", "output", "router"):
            return False
        if format.packed == "experts" and self.has_experts:
            return component == "experts" and entry.tensor.each_expert
        return entry.tensor.shape[-1] > 1

    def gguf_type(self, entry: Entry, row: int, at: At = ANYWHERE) -> DType:
        """What llama.cpp's quantiser makes of a tensor whose rows have so many numbers."""
        tensor = entry.tensor
        if tensor.kind != "table" and (tensor.kind != "matrix" or tensor.shape[-1] == 1):
            return FP32
        of_experts = tensor.weight.component == "experts" and tensor.each_expert
        if of_experts and self.architecture.storage.weights == MXFP4.name:
            return MXFP4  # published so, and not quantised a second time
        if at.given is not None:
            return mixes.fitting(at.given, row)
        rule = self._rule(tensor.weight)
        roles = [index.role for index in tensor.indices]
        stacked = rule in OF_LATENTS or not STACKED.isdisjoint(roles)  # of latents, a matrix for each head
        return mixes.tensor_type(self.mix, rule, row, self.traits, at.i, at.n, stacked)

    def _matrix(self, entry: Entry, sizes: list[int]) -> tuple[int, int, int]:
        """A tensor as so many matrices of inputs × outputs. A table's rows are its outputs; a vector is one row."""
        tensor = entry.tensor
        if tensor.kind not in ("matrix", "kernel"):
            *rows, row = sizes or [1]
            return 1, row, prod(rows)
        copies, inputs, outputs = self.multiplied(tensor).axes(sizes)
        return prod(copies), inputs, outputs

    def multiplied(self, tensor: Tensor) -> Tensor:
        """A matrix as the form multiplies it in which it is stored."""
        if tensor.weight.use in OF_LATENTS and self.format is None and not self.traits.latent_whole:
            return self.absorbed.get(tensor.weight.key, tensor)
        return tensor

    def _check_blocks(self, entry: Entry, whole: list[int], mine: list[int], at: At) -> None:
        """A split that cuts through the blocks of a format is refused, as engines refuse it."""
        form = None if self.format is None else self._form(entry, self.format, at)
        if whole == mine or not (form is None or self._is_packed(entry, form, at)):
            return
        _, inputs, outputs = self._matrix(entry, whole)
        _, my_inputs, my_outputs = self._matrix(entry, mine)
        if form is None:
            block, block_outputs = self.gguf_type(entry, inputs, at).block, 1
        else:
            packing = form.of(entry.tensor.weight.component)
            block = max(packing.element.block, (packing.group or 1) if not packing.flat else 1)
            block_outputs = packing.group_outputs or 1
        for size, mine_, step in ((inputs, my_inputs, block), (outputs, my_outputs, block_outputs)):
            if size % step == 0 and mine_ % step:
                raise InputError(
                    f"--tp {self.parallel.tp}: {entry.tensor.weight.key} would have {mine_} of {size} channels on a "
                    f"device, not a multiple of {self.dtype}'s blocks of {step}",
                    kind="usage",
                )


def total(architecture: Architecture, dtype: str = "bf16") -> int:
    """Bytes of all weights on one device."""
    weights = Weights(architecture, dtype, Layout())
    factors = weights.factors()
    return sum(share.row.total for share in weights.stage(0)) + (factors.total if factors is not None else 0)
