"""Deliberate errors: a piece of a module's source replaced while a test runs."""

from __future__ import annotations

import inspect
from types import FunctionType, ModuleType

import pytest


def mutate(module: ModuleType, old: str, new: str, patch: pytest.MonkeyPatch) -> None:
    """Compiles the module's source with `old` replaced; its functions and methods take the place of the true ones."""
    source = inspect.getsource(module)
    assert old in source, f"{module.__name__} no longer says: {old}"
    scratch: dict[str, object] = {"__name__": module.__name__}
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), scratch)
    for name, changed in scratch.items():
        true = getattr(module, name, None)
        if getattr(changed, "__module__", None) != module.__name__:
            continue
        if isinstance(changed, FunctionType) and isinstance(true, FunctionType):
            patch.setattr(true, "__code__", changed.__code__)
        elif isinstance(changed, type):
            for key, member in vars(changed).items():
                method, old_method = plain(member), plain(vars(true).get(key))
                if method is not None and old_method is not None and method.__closure__ is None:
                    patch.setattr(old_method, "__code__", method.__code__)


def plain(member: object) -> FunctionType | None:
    """The function inside a method, a property, a cached one or a static method."""
    inside = (getattr(member, name, None) for name in ("fget", "__func__", "func"))
    function = next((found for found in inside if found is not None), member)
    return function if isinstance(function, FunctionType) else None
