"""Every type of transformers' masked and sequence-to-sequence language models is read, or listed with a reason."""

from __future__ import annotations

import json

import pytest

from gptcalc.errors import InputError
from gptcalc.sources.huggingface import read
from gptcalc.sources.huggingface.unsupported import UNSUPPORTED
from tests import TESTS

#: mapping -> model_type -> class
TYPES: dict[str, dict[str, str]] = json.loads((TESTS / "data" / "encoder_types.json").read_text("utf-8"))


STACK = {"model_type": "t5_gemma_module", "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}
#: what configs say that have no default
GIVEN = {"t5gemma": {"encoder": STACK, "decoder": STACK}}


def test_the_mappings_are_whole() -> None:
    assert {name: len(types) for name, types in TYPES.items()} == {"masked": 51, "sequence to sequence": 38}


@pytest.mark.parametrize("model_type", sorted({model_type for types in TYPES.values() for model_type in types}))
def test_a_type_is_read_or_listed_with_a_reason(model_type: str) -> None:
    config = {"model_type": model_type, **GIVEN.get(model_type, {})}
    if model_type not in UNSUPPORTED:
        assert read(config).architecture.d
        return
    with pytest.raises(InputError) as caught:
        read(config)
    assert UNSUPPORTED[model_type] in caught.value.message


@pytest.mark.parametrize(("model_type", "name"), [("albert", "embedding_size"), ("rembert", "input_embedding_size")])
def test_a_projection_between_equal_widths_is_refused(model_type: str, name: str) -> None:
    """The class has one of d² + d parameters there, too: AlbertModel and RemBertModel of transformers 5.24.0."""
    with pytest.raises(InputError, match=f"{name}: a projection between equal widths"):
        read({"model_type": model_type, "hidden_size": 32, "num_attention_heads": 4, name: 32})
