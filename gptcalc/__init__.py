"""What a transformer costs before anyone runs it.

    import gptcalc

    model = gptcalc.load("llama-3-8b")            # a preset, a path to a config.json, a folder, a hub id of a preset
    gptcalc.params(model).total                   # 8030261248
    gptcalc.kv(model, context=8192).bytes         # 1073741824
    gptcalc.flops(model, context=1024).total
    gptcalc.memory(model, dtype="int4", tp=2).per_device.total
    gptcalc.fit(model, "24GiB", dtype="fp8").max_context
    gptcalc.serve(model, "h100-sxm", engine="vllm", context=8192).tokens  # draft="llama-3.2-1b" with either
    gptcalc.compare(["gpt2", model], columns="model,total")  # a list of dictionaries, a table in a notebook
    gptcalc.load({"d": 512, "v": 32000, "c": 2048, "n_heads": 8, "n_layers": 6, "d_ff": 1408})
    gptcalc.time(model, "h100-sxm", context=8192).per_token_s
    gptcalc.sweep(model, {"n_kv_heads": [1, 2, 4, 8]}, context=[8192])
    gptcalc.design(model, {"d": None, "n_layers": None, "d_ff": None}, "24GiB", context=32768).designs[0]
    gptcalc.train(model, "h100-sxm", tokens=2 * 10**12, devices=64, mfu=0.4).days

Every count is an exact integer; the fields are the keys of the JSON. Wrong input raises InputError, with the message
that the command line prints. The keyword arguments are the fields of the structs in `gptcalc.conventions`. The witness
is `gptcalc.reference`. Answers have `to_dict()`, and are tables in a notebook.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptcalc.api import (
        InputError,
        compare,
        design,
        diff,
        explain,
        fit,
        flops,
        kv,
        load,
        memory,
        params,
        presets,
        serve,
        sweep,
        time,
        trace,
        train,
        training,
    )

    __version__: str

__all__ = [
    "InputError", "__version__", "compare", "design", "diff", "explain", "fit", "flops", "kv", "load", "memory",
    "params", "presets", "serve", "sweep", "time", "trace", "train", "training",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The functions, loaded when the first is asked for: the command line begins here too, and needs none of them."""
    if name == "__version__":
        from importlib.metadata import version

        return version("gptcalc")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gptcalc import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
