"""Arrays that have a shape and a type but no data: a trillion parameters traced in a fraction of a second.

`ShapeArray` stands in for an ndarray on NumPy's two protocols (`__array_ufunc__`, `__array_function__`). It is no
subclass: a subclass would lose operations silently, whereas this class raises TypeError on whatever it doesn't know.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gptcalc.reference.tally import Array

Shape = tuple[int, ...]

#: memory for answers that depend on types only: (ufunc, types of the operands) -> type of the result
_RESULT_TYPES: dict[tuple[Any, ...], np.dtype[Any]] = {}

ELEMENTWISE = frozenset({
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.negative, np.absolute, np.square,
    np.power, np.sqrt, np.exp, np.expm1, np.log, np.log1p, np.logaddexp, np.tanh, np.sin, np.cos, np.floor, np.rint,
    np.maximum, np.minimum, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
    np.logical_and, np.logical_or, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.isnan,
})  # fmt: skip


class ShapeArray(NDArrayOperatorsMixin):
    """A shape and a dtype. Indexing, arithmetic and the functions below give further shapes; nothing is computed."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: Any = np.float32) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"ShapeArray({self.shape}, {self.dtype})"

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("a ShapeArray has no data, so its truth is unknown")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method != "__call__" or options:
            raise TypeError(f"ShapeArray does not know {ufunc.__name__}.{method} with {sorted(options)}")
        if ufunc is np.matmul:
            result = _matmul(*map(_as_shape_array, inputs))
        elif ufunc in ELEMENTWISE:
            result = ShapeArray(_broadcast(*(getattr(x, "shape", ()) for x in inputs)), _result_type(ufunc, inputs))
        else:
            raise TypeError(f"ShapeArray does not know {ufunc.__name__}")
        return result if out is None else _into(out[0], result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in FUNCTIONS:
            raise TypeError(f"ShapeArray does not know {function.__name__}")
        return FUNCTIONS[function](*args, **kwargs)

    # what an ndarray does with its shape

    def reshape(self, *shape: int) -> ShapeArray:
        if -1 in shape:
            known = prod(n for n in shape if n != -1)
            shape = tuple(self.size // known if n == -1 else n for n in shape)
        if prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.shape} into {shape}")
        return ShapeArray(shape, self.dtype)

    def swapaxes(self, i: int, j: int) -> ShapeArray:
        axes = list(self.shape)
        axes[i], axes[j] = axes[j], axes[i]
        return ShapeArray(tuple(axes), self.dtype)

    def transpose(self, *axes: int) -> ShapeArray:
        order = axes or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"{order} does not order the axes of {self.shape}")
        return ShapeArray(tuple(self.shape[i] for i in order), self.dtype)

    def astype(self, dtype: Any, copy: bool = True) -> ShapeArray:  # noqa: ARG002
        return ShapeArray(self.shape, dtype)

    def __getitem__(self, index: Any) -> ShapeArray:
        return ShapeArray(_indexed(self.shape, index if isinstance(index, tuple) else (index,)), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self[index]
        if _broadcast(place.shape, getattr(value, "shape", ())) != place.shape:
            raise ValueError(f"cannot put {value.shape} into {place.shape}")

    def _reduced(self, axis: int, keepdims: bool) -> ShapeArray:
        axes = list(self.shape)
        axes[axis] = 1
        if not keepdims:
            del axes[axis]
        return ShapeArray(tuple(axes), self.dtype)

    def max(self, axis: int, keepdims: bool = False) -> ShapeArray:
        return self._reduced(axis, keepdims)

    sum = mean = max

    def argmax(self, axis: int, keepdims: bool = False) -> ShapeArray:
        return ShapeArray(self._reduced(axis, keepdims).shape, np.int64)

    def any(self, axis: int, keepdims: bool = False) -> ShapeArray:
        return ShapeArray(self._reduced(axis, keepdims).shape, np.bool_)


def shape_only(shape: Shape, dtype: Any = np.float32) -> Array:
    """A ShapeArray, typed as the array that it stands for."""
    return cast(Array, ShapeArray(shape, dtype))


# --- the rules: how each operation turns shapes into a shape ----------------------------------------------------------


def _as_shape_array(x: Any) -> ShapeArray:
    return x if isinstance(x, ShapeArray) else ShapeArray(np.shape(x), np.asarray(x).dtype)


def _broadcast(*shapes: Shape) -> Shape:
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    sizes = []
    for axis in zip(*padded, strict=True):
        wide = {n for n in axis if n != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not go together")
        sizes.append(wide.pop() if wide else 1)
    return tuple(sizes)


def _result_type(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> np.dtype[Any]:
    types = tuple(getattr(x, "dtype", type(x)) for x in inputs)  # a Python number is weak: its class stands for it
    key = (ufunc, *types)
    if key not in _RESULT_TYPES:
        _RESULT_TYPES[key] = ufunc.resolve_dtypes((*types, None))[-1]
    return _RESULT_TYPES[key]


def _into(out: Any, result: ShapeArray) -> ShapeArray:
    if not isinstance(out, ShapeArray) or out.shape != result.shape:
        raise ValueError(f"a result of shape {result.shape} does not fit into {getattr(out, 'shape', out)}")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"{result.dtype} does not fit into {out.dtype}")
    return out


def _matmul(a: ShapeArray, b: ShapeArray) -> ShapeArray:
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"cannot multiply {a.shape} with {b.shape}")
    stack = _broadcast(a.shape[:-2], b.shape[:-2])
    return ShapeArray((*stack, a.shape[-2], b.shape[-1]), np.result_type(a.dtype, b.dtype))


def _indexed(shape: Shape, index: tuple[Any, ...]) -> Shape:
    """The shape of x[index]: slices, None, `...`, integers, and at most one integer array."""
    if Ellipsis in [i for i in index if not hasattr(i, "shape")]:
        at = next(k for k, i in enumerate(index) if i is Ellipsis)
        used = sum(i is not None and i is not Ellipsis for i in index)
        index = (*index[:at], *[slice(None)] * (len(shape) - used), *index[at + 1 :])
    result: list[int] = []
    axes = iter(shape)
    for i in index:
        if i is None:
            result.append(1)
            continue
        n = next(axes)
        if isinstance(i, slice):
            result.append(len(range(*i.indices(n))))
        elif isinstance(i, int):
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of range of an axis of {n}")
        elif hasattr(i, "shape") and np.issubdtype(i.dtype, np.integer) and len(index) == 1:
            result.extend(i.shape)
        else:
            raise TypeError(f"ShapeArray does not know the index {i!r}")
    return (*result, *axes)


def _concatenate(parts: Any, axis: int = 0) -> ShapeArray:
    shapes = [list(part.shape) for part in parts]
    total = sum(shape[axis] for shape in shapes)
    for shape in shapes:
        shape[axis] = total
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"cannot join {[part.shape for part in parts]} along axis {axis}")
    return ShapeArray(tuple(shapes[0]), np.result_type(*(part.dtype for part in parts)))


def _where(condition: Any, a: Any, b: Any) -> ShapeArray:
    shape = _broadcast(*(getattr(x, "shape", ()) for x in (condition, a, b)))
    return ShapeArray(shape, np.result_type(*(getattr(x, "dtype", x) for x in (a, b))))


def _take_along_axis(x: Any, indices: Any, axis: int) -> ShapeArray:
    rest = [list(s) for s in (x.shape, indices.shape)]
    chosen = rest[1][axis]
    rest[0][axis] = rest[1][axis] = 1
    shape = list(_broadcast(*map(tuple, rest)))
    shape[axis] = chosen
    return ShapeArray(tuple(shape), x.dtype)


def _argsort(x: Any, axis: int = -1, kind: str | None = None) -> ShapeArray:  # noqa: ARG001
    return ShapeArray(x.shape, np.int64)


def _take(x: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> ShapeArray:  # noqa: ARG001
    if axis not in (None, 0) or (axis is None and x.ndim != 1):
        raise TypeError(f"ShapeArray knows take along the first axis only, not {axis}")
    return ShapeArray((*indices.shape, *x.shape[1:]), x.dtype)


def _arange(start: int, stop: int) -> ShapeArray:
    return ShapeArray((max(stop - start, 0),), np.int64)


def _broadcast_to(x: Any, shape: Shape) -> ShapeArray:
    if _broadcast(x.shape, shape) != shape:
        raise ValueError(f"{x.shape} does not spread to {shape}")
    return ShapeArray(shape, x.dtype)


FUNCTIONS: dict[Any, Callable[..., ShapeArray]] = {
    np.concatenate: _concatenate,
    np.where: _where,
    np.take_along_axis: _take_along_axis,
    np.argsort: _argsort,
    np.take: _take,
    np.arange: _arange,
    np.broadcast_to: _broadcast_to,
}
