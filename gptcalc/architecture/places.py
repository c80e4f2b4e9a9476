"""Where a layer stands: what depends on the layers before it, and in which order layers run."""

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from gptcalc.architecture.layers import Block, Part, Repeat, walk
from gptcalc.architecture.loop import Loop, Looped, Speeds
from gptcalc.architecture.model import Architecture
from gptcalc.architecture.residuals import AttentionResiduals


def looped(layers: tuple[Repeat, ...], loop: Loop) -> tuple[Repeat, ...]:
    """The same layers, those of a loop knowing that they are."""
    inside = Looped(passes=loop.passes, entry=loop.entry, entry_norm=loop.norm, caches=loop.caches)
    numbers = range(loop.first, loop.first + loop.layers)
    return repeated([replace(b, looped=inside) if n in numbers else b for n, b in enumerate(walk(layers))])


def of_speeds(layers: tuple[Repeat, ...], speeds: Speeds) -> tuple[Repeat, ...]:
    """The same layers, knowing of which speed they are."""
    slow = Looped(passes=speeds.cycles, entry="slow", norm=speeds.norm)
    fast = replace(slow, passes=speeds.cycles * speeds.fast_cycles, entry="fast")
    return repeated([replace(b, looped=fast if n < speeds.fast else slow) for n, b in enumerate(walk(layers))])


def placed(layers: tuple[Repeat, ...], residuals: AttentionResiduals | None) -> tuple[Repeat, ...]:
    """Layers that know where they stand: how many sums of the stream there are, where a loop begins."""
    blocks: list[Block] = []
    aside = 0
    for number, block in enumerate(walk(layers)):
        begins = residuals is not None and number % residuals.every == 0
        parts = tuple(_mixing(block, aside, begins, residuals.first)) if residuals is not None else block.parts
        before = blocks[-1].looped if blocks else None
        begins_loop = before is None or block.looped is None or before.entry != block.looped.entry
        loop = block.looped and replace(
            block.looped, begins=begins_loop, aside=aside + begins if before is None else before.aside
        )
        blocks.append(replace(block, parts=parts, looped=loop))
        aside += begins
    return repeated(list(_with_sums(list(_with_ends(blocks))) if residuals is not None else _with_ends(blocks)))


def _with_ends(blocks: list[Block]) -> Iterator[Block]:
    """Layers of a loop knowing which is its last."""
    for block, behind in zip(blocks, (*blocks[1:], None), strict=True):
        last = behind is None or behind.looped is None or behind.looped.begins
        yield block if block.looped is None else replace(block, looped=replace(block.looped, ends=last))


def _with_sums(blocks: list[Block]) -> Iterator[Block]:
    """Layers of a loop knowing how many sums it leaves: those set aside behind its first layer, and the stream."""
    for inside, run in groupby(blocks, lambda block: block.looped is not None):
        own = list(run)
        sums = 1 + sum(part.begins for block in own[1:] for part in block.parts)
        for block in own:
            yield replace(block, looped=replace(block.looped, sums=sums)) if inside and block.looped else block


def repeated(blocks: list[Block]) -> tuple[Repeat, ...]:
    """Equal layers that follow each other are one repetition."""
    known: dict[Block, Block] = {}
    once = [known.setdefault(block, block) for block in blocks]
    return tuple(Repeat(count=len(list(same)), body=(block,)) for block, same in groupby(once))


def apart(block: Block) -> Block:
    """A layer without where it stands."""
    loop = block.looped and replace(block.looped, begins=False, ends=False, sums=0, aside=0)
    return replace(block, parts=tuple(replace(part, sums=0, begins=False) for part in block.parts), looped=loop)


def _mixing(block: Block, aside: int, begins: bool, first: bool) -> Iterator[Part]:
    """`first`: a sum alone is mixed, too."""
    for place, part in enumerate(block.parts):
        sums = aside + (begins and place > 0) + 1
        yield replace(part, sums=sums if first or sums > 1 else 0, begins=begins and place == 0)


def is_looped(architecture: Architecture) -> bool:
    """Whether some layers run several times."""
    return any(block.looped is not None for block, _ in architecture.groups())


def visits(architecture: Architecture) -> Iterator[tuple[int, Block, int]]:
    """The layers in the order in which they run: each with its number and the number of the pass, both from 0."""
    runs: list[list[tuple[int, Block]]] = []
    for number, block in enumerate(architecture.blocks()):
        if block.looped is None or block.looped.begins:
            runs.append([(number, block)])
        else:
            runs[-1].append((number, block))
    fast: list[tuple[int, Block]] = []
    for run in runs:
        loop = run[0][1].looped
        passes = 1 if loop is None else loop.passes
        if loop is not None and loop.entry == "fast":
            fast = run
            continue
        for number_of_pass in range(passes):
            if loop is not None and loop.entry == "slow" and fast and fast[0][1].looped is not None:
                each = fast[0][1].looped.passes // passes
                for cycle in range(each):
                    yield from ((number, block, number_of_pass * each + cycle) for number, block in fast)
            yield from ((number, block, number_of_pass) for number, block in run)
