"""What fields declare of their numbers: bounds, multiples, and the size in a small copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gptcalc.analysis.params import params
from gptcalc.architecture import Multiple, Strict, numbers
from gptcalc.document import KINDS, build
from gptcalc.errors import InputError
from gptcalc.reference.shrink import shrink
from gptcalc.sources import load
from gptcalc.sources.preset import names
from tests.reference_cases import DOCUMENTS, ENCODERS
from tests.structs import fields, held, structs


def test_every_whole_number_says_its_bounds_and_its_small_size() -> None:
    silent = [
        f"{kind.__name__}.{name}"
        for kind in structs()
        for name, declared in fields(kind)
        if int in held(declared) and (name not in numbers(kind) or numbers(kind)[name].small is None)
    ]
    assert silent == ["Hashing.rows", "Hashing.multipliers"]  # lists, for which `shrink` has a rule


#: sizes that do not divide, a section of each kind that has such: what they would count is no model
UNEVEN = {
    "attn": ({"n_heads": 5, "n_kv_heads": 2, "d_head": 4}, "n_heads = 5 is not a multiple of n_kv_heads = 2"),
    "csa": (
        {"n_heads": 5, "n_groups": 2, "d_head": 8, "q_rank": 5, "out_rank": 3, "window": 4},
        "n_heads = 5 is not a multiple of n_groups = 2",
    ),
    "linear": ({"n_heads": 5, "n_k_heads": 2, "d_k": 4, "d_v": 3}, "n_heads = 5 is not a multiple of n_k_heads = 2"),
    "slots": (
        {"n_heads": 5, "n_kv_heads": 2, "d_k": 4, "d_v": 3, "n_slots": 4},
        "n_heads = 5 is not a multiple of n_kv_heads = 2",
    ),
    "rglru": ({"d_rnn": 16, "n_heads": 3, "kernel": 4}, "d_rnn = 16 is not a multiple of n_heads = 3"),
    "mamba": (
        {"n_heads": 5, "d_inner": 12, "dt_rank": 4, "d_state": 3, "kernel": 3},
        "d_inner = 12 is not a multiple of n_heads = 5",
    ),
    "mamba2": (
        {"n_heads": 5, "n_groups": 2, "d_head": 4, "d_state": 3, "kernel": 3},
        "n_heads = 5 is not a multiple of n_groups = 2",
    ),
}


def test_every_declared_multiple_is_tried() -> None:
    declared = {kind for kind in structs() for number in numbers(kind).values() if isinstance(number.small, Multiple)}
    assert declared == {KINDS[section] for section in UNEVEN}


@pytest.mark.parametrize("section", UNEVEN)
def test_sizes_that_do_not_divide_are_refused(section: str) -> None:
    keys, problem = UNEVEN[section]
    document = {"d": 24, "v": 61, "c": 40, "n_layers": 2, "n_heads": 4, "layers": f"n*{section}", section: keys}
    with pytest.raises(InputError) as error:
        build(document)
    assert error.value.message == f"{section}: {problem}"


def whole_numbers(part: object, place: str = "") -> Iterator[tuple[str, int]]:
    """All whole numbers in a struct, by where they stand, those of a layer by its kind."""
    if isinstance(part, Strict):
        for name in part.__struct_fields__:
            yield from whole_numbers(getattr(part, name), f"{place}.{name}")
    elif isinstance(part, tuple):
        for n, item in enumerate(part):
            yield from whole_numbers(item, f"{place}.{n}")
    elif isinstance(part, int) and not isinstance(part, bool):
        yield place, part


@pytest.mark.parametrize("share", range(4))
def test_small_copies_are_small_and_no_larger_than_the_model(share: int) -> None:
    models = [load(name).architecture for name in names()[share::4]]
    if share == 0:
        models += [build({"name": name, **document}) for name, document in {**DOCUMENTS, **ENCODERS}.items()]
    for model in models:
        small = shrink(model)
        assert params(small).total <= min(params(model).total, 60_000), model.name
        for place, number in whole_numbers(small):
            no_size = place.endswith("original") or ".hashing.multipliers." in place  # an odd factor, of any width
            most = 400 if place.endswith(".table") else 200  # a table has the rows of all its heads
            assert number <= most or no_size, (model.name, place, number)
        assert shrink(small).n_layers == small.n_layers
