"""What a checkpoint's header says: its tensors, where they lie, and what is odd about it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gptcalc.errors import InputError, file_name

#: how the tensors of a repository on the hub are written where a path could stand
SCHEME = "hf://"
LONGEST_HEADER = 100_000_000

#: last words of tables that are derived, not learned: what old checkpoints carry along
BUFFERS = (
    "inv_freq",
    "cos_cached",
    "sin_cached",
    "tid2eid",
    "slope_rate",
    "query_decay",
    "key_decay",
    "diagonal_decay",
    "final_logits_bias",
    "layer_multipliers",
    "ngram_heads_offsets",
    "ngram_heads_vocab_sizes",
)
CONSTANTS = ("act_fn.beta", "act_fn.eps")  # of xIELU, which its class stores
ROTARY = ("inv_freq", "cos_cached", "sin_cached")
ROTARY_TABLES = ("rope_freqs.", "rope_factors_", "roformer.encoder.embed_positions.")  # first words
#: last words of what I-BERT measures in order to compute in integers
MEASURED = ("_integer", "_scaling_factor", ".x_min", ".x_max", ".LayerNorm.shift")
MASKS = ("attn.bias", "attention.bias")


#: shows that work goes on: hands out the things that are worked through
Steps: TypeAlias = Callable[[Sequence[str]], Iterable[str]]


class Tensor(NamedTuple):
    """One tensor of a file: where its bytes lie, counted from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path
    start: int
    end: int

    @property
    def elements(self) -> int:
        return product(self.shape)


@dataclass(frozen=True)
class Header:
    """The tensors of a checkpoint, and what is odd about it."""

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Elements of all tensors; buffers such as causal masks aside."""
        return sum(t.elements for t in self.tensors if not is_buffer(t))


def is_buffer(tensor: Tensor) -> bool:
    """Tables that are derived, not learned."""
    derived = tensor.name.rpartition(".")[2] in BUFFERS or tensor.name.endswith((*MEASURED, *CONSTANTS))
    return derived or is_rotary(tensor) or is_mask(tensor)


def is_rotary(tensor: Tensor) -> bool:
    """Tables of rotary positions."""
    return tensor.name.startswith(ROTARY_TABLES) or tensor.name.rpartition(".")[2] in ROTARY


def is_mask(tensor: Tensor) -> bool:
    """Causal masks. A mask is square; a bias called attn.bias would be a vector."""
    if tensor.name.endswith(MASKS):
        return len(tensor.shape) == 4 and tensor.shape[-1] == tensor.shape[-2]
    return tensor.name.rpartition(".")[2] == "masked_bias"


def product(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def regular_size(path: Path) -> int:
    """The size of a regular file that may be read. Pipes and devices are refused: reading them might never end."""
    try:
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):
            os.close(os.open(path, os.O_RDONLY))  # says here, not later, that reading is not permitted
    except OSError as error:
        raise bad(path, (error.strerror or "can't be read").lower()) from None
    if not stat.S_ISREG(status.st_mode):
        raise bad(path, "not a regular file")
    if status.st_size == 0:
        raise bad(path, "empty file")
    return status.st_size


def bad(path: Path, problem: str) -> InputError:
    """An error that names the file."""
    return InputError(f"{file_name(path)}: {problem}", kind="checkpoint")
