"""pytorch_model.bin: files that torch 2.13 wrote (tests/data/torch), and pickles that mean harm."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.stored import by_name
from gptcalc.errors import InputError
from gptcalc.sources.checkpoint import header, tensors
from gptcalc.sources.packed import contents
from tests.conftest import Command

DATA = Path(__file__).parents[1] / "data" / "torch"
#: as they were saved: a tied table, a parameter, fp8, a view of a larger tensor, a buffer of integers
SAVED = [
    ("model.embed_tokens.weight", (12, 8), "BF16"), ("lm_head.weight", (12, 8), "BF16"),
    ("model.norm.weight", (8,), "F32"), ("model.layers.0.w.weight", (4, 6), "F8_E4M3"),
    ("model.layers.0.view.weight", (6, 6), "F16"), ("model.layers.0.position_ids", (3,), "I64"),
]  # fmt: skip


def test_what_torch_wrote() -> None:
    assert tensors(DATA / "zip.bin") == SAVED
    assert tensors(DATA / "nested.bin") == SAVED
    assert tensors(DATA / "legacy.bin") == [entry for entry in SAVED if entry[2] != "F8_E4M3"]


def test_what_is_tied_counts_once() -> None:
    found = by_name(contents(header(DATA / "zip.bin")))
    assert found.main == 12 * 8 + 8 + 4 * 6 + 6 * 6
    assert {row.role: row.params for row in found.held} == {"main": found.main, "copies": 96, "bookkeeping": 3}


def test_an_index_and_a_folder(tmp_path: Path, gptcalc: Command) -> None:
    (tmp_path / "one.bin").write_bytes((DATA / "zip.bin").read_bytes())
    names = [name for name, _, _ in SAVED]
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "one.bin")}))
    for reference in (index, tmp_path):
        assert gptcalc("params", reference, "--get", "total").out == "164\n"
    index.write_text(json.dumps({"weight_map": {names[0]: "two.bin"}}))
    assert "shard two.bin is missing" in gptcalc("params", index).err


class Harm:
    """What a hostile pickle asks for: a call of the system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def archive(path: Path, data: bytes, storage: bytes = b"", **how: Any) -> Path:
    with zipfile.ZipFile(path, "w", **how) as file:
        file.writestr("x/data.pkl", data)
        file.writestr("x/data/0", storage)
    return path


@pytest.mark.parametrize("protocol", range(2, 6))
def test_no_pickle_is_run(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    path = archive(tmp_path / "a.bin", pickle.dumps({"w": Harm(made), "v": [1, 2.5, "x", None]}, protocol))
    assert header(path).tensors == ()
    assert not made.exists()


def tensor_pickle(shape: str, count: int, kind: str = "FloatStorage", offset: int = 0) -> bytes:
    """A state dict of one tensor, step by step."""
    return (
        b"}(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(("
        b"X\x07\x00\x00\x00storagectorch\n" + kind.encode() + b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
        b"I" + str(count).encode() + b"\ntQI" + str(offset).encode() + b"\n(" + shape.encode() + b"t(I1\nt\x89}tRu."
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (tensor_pickle("I3\n", 3), "tensor 'w': 12 bytes do not fit into the 8 of its storage"),
        (tensor_pickle("I2\n", 2, offset=1), "tensor 'w': 12 bytes do not fit into the 8 of its storage"),
        (tensor_pickle("I9223372036854775807\nI9223372036854775807\n", 2), "do not fit into the 8"),
        (tensor_pickle("I-2\n", 2), "a tensor that is not described by sizes"),
        (tensor_pickle("I2\n", 2, "OddStorage"), "element type 'OddStorage' is not known"),
        (b"}(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(}K\x00)tRu.", "not described by sizes"),
        (b"}(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v3\n(NtRu.", "a broken pickle"),
        (b"]q\x00.", "no mapping from names to tensors"),
        (b"}(X\x01", "a broken pickle"),
        (b"u.", "a broken pickle"),
        (b"h\x07.", "a broken pickle"),
        (b"}", "a broken pickle"),
        (b"N" * 300_000 + b".", "a pickle of more steps than a state dict takes"),
        (b"\x8a\xff", "a broken pickle"),
        (b"ctorch\nx\n}}\x92.", "a step NEWOBJ_EX, which a state dict has not"),
    ],
)
def test_pickles_that_lie(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        header(archive(tmp_path / "a.bin", data, bytes(8)))
    assert said in caught.value.message


def test_keys_that_are_no_texts_are_left_out(tmp_path: Path) -> None:
    """A tuple in a tuple in a tuple …: to compare it with another would go deeper than the stack."""
    assert tensors(archive(tmp_path / "a.bin", b"})" + b"\x85" * 1_000_000 + b"Ns.")) == []


def test_a_good_tensor(tmp_path: Path) -> None:
    assert tensors(archive(tmp_path / "a.bin", tensor_pickle("I2\n", 2), bytes(8))) == [("w", (2,), "F32")]


def test_archives_that_are_no_checkpoint(tmp_path: Path) -> None:
    def problem(content: bytes) -> str:
        path = tmp_path / "b.bin"
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            header(path)
        return caught.value.message

    packed = archive(tmp_path / "a.bin", b"}.", compression=zipfile.ZIP_DEFLATED).read_bytes()
    assert "data.pkl is compressed" in problem(packed)
    assert "not a file that torch wrote" in problem(packed[:40])
    assert "not a file that torch wrote" in problem(b"PK\x05\x06" + bytes(18))
    named = archive(tmp_path / "a.bin", b"}.").read_bytes()
    directory = named.rindex(b"x/data/0")
    unreadable = bytearray(named)  # a fuzzer's finding: a name that claims to be UTF-8 and is not
    unreadable[directory - 38 + 1] |= 0x08
    unreadable[directory] = 0xE8
    assert "not a file that torch wrote" in problem(bytes(unreadable))
    assert "not a file that torch wrote" in problem(b"\x80\x02K\x01.")
    assert "not a file that torch wrote" in problem(b"anything")
    assert "Git LFS pointer" in problem(b"version https://git-lfs.github.com/spec/v1\n")
    assert "empty file" in problem(b"")
