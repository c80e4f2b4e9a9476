"""Command lines drawn at random: every option of every command, as declared, mostly with values that it takes.

What is drawn must be answered, or refused in one line: `faults` says what is wrong with a result.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gptcalc import cli
from gptcalc.cli.answer import Command
from gptcalc.cli.parameters import Parameter
from gptcalc.options import choices, plain
from gptcalc.sources import text
from tests.cli.test_cli_random import gptcalc
from tests.conftest import Result
from tests.golden_models import FOLDER
from tests.sources.checkpoints import sharded, sparse

COMMANDS = {name: Command(cli.function(name)) for name in cli.names()}

WORDS: dict[str, Any] = text.parse_yaml((Path(__file__).parent / "values.yaml").read_text(encoding="utf-8"))
COLUMNS: list[str] = WORDS["columns"]
COLUMN_LISTS = [*COLUMNS, *(f"-{name}" for name in COLUMNS), "-", *map(",".join, pairwise(COLUMNS))]

#: what hardly any option takes; those that a file can't say are here
ODD = (*WORDS["odd"], "\x00", "\udcff", "1" * 5000, "x" * 3000)
ODDNESS = 12  # one value in so many is an odd one

#: what a command needs besides its arguments
NEEDS = {
    "fit": ("--device", "h100-sxm"),
    "serve": ("--device", "4xa100-80gb"),
    "time": ("--device", "h100-sxm"),
    "train": ("--device", "64xh100-sxm", "--tokens", "1T"),
    "design": ("--like", "gpt2", "--free", "n_layers=6..24:6", "--fits", "1GiB"),
    "check": ("--expect", "total=124439808"),
}


def surroundings(folder: Path) -> dict[str, Any]:
    """Files to name on a command line: models that are right, models that are broken, results to write over."""
    tiny = {"name": "tiny", "d": 16, "v": 20, "c": 8, "n_heads": 2, "n_layers": 2, "d_ff": 32, "source": "a test"}
    (folder / "tiny.json").write_text(json.dumps(tiny))
    (folder / "loop.json").write_text(json.dumps({**tiny, "loop": {"passes": 3}}))
    (folder / "broken.json").write_text(json.dumps(tiny)[:-9])
    (folder / "nan.json").write_text(json.dumps({**tiny, "softcap": float("nan")}))
    (folder / "lock.yaml").write_text("model: tiny\nsettings: {context: 8}\nparams: {total: 3}\n")
    tensors = {f"h.{layer}.{name}.weight": ("F16", (16, 48)) for layer in range(3) for name in ("a", "b")}
    sparse(folder / "some.safetensors", tensors)
    (folder / "split").mkdir()
    sharded(folder / "split", tensors, 2)
    (folder / "one-lost").mkdir()
    sharded(folder / "one-lost", tensors, 3)
    (folder / "one-lost" / "model-00002-of-00003.safetensors").unlink()
    (folder / "empty").mkdir()
    (folder / "own").mkdir()
    (folder / "x.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 16)
    return {
        "models": [
            *map(str, sorted(folder.iterdir())),
            *(str(FOLDER / name) for name in ("llama_gqa", "rwkv7_fla", "gpt2")),
        ],
        "out": [
            str(folder / "out" / name)
            for name in ("a.json", "a.csv", "a.md", "a.svg", "a.png", "a.tex", "a.html", "a.npz")
        ],
    }


def model(places: dict[str, Any]) -> st.SearchStrategy[str]:
    return st.one_of(
        *[st.sampled_from(WORDS["presets"])] * ODDNESS, st.sampled_from(places["models"]), st.sampled_from(ODD)
    )


def value(command: str, parameter: Parameter, places: dict[str, Any]) -> st.SearchStrategy[str]:
    """What may stand behind an option: mostly what it takes."""
    kind, _, option = plain(parameter.annotation)
    spelling = parameter.name if option.positional else parameter.words[0]
    known = [*map(str, choices(kind))]
    if command == "sweep" and spelling in WORDS["sweep"]:
        known = WORDS["sweep"][spelling]
    elif option.metavar.startswith("KEY,KEY") or spelling == "--sort":
        known = COLUMN_LISTS
    elif option.metavar in ("MODEL", "MODEL...", "PATH") or spelling in ("--add", "--check"):
        return model(places)
    elif option.metavar in ("FILE", "OUT.npz"):
        return st.sampled_from([*places["out"], "-", "/no/such/place.json", *places["models"][:1], "", "."])
    elif spelling == "--set":
        return st.builds(
            "{}={}".format, st.sampled_from(WORDS["keys"]), st.sampled_from([*WORDS["counts"], *ODD, "bf16", "n*attn"])
        )
    elif spelling == "--expect":
        keys = st.sampled_from(["total", "kv.bytes", "flops.total", "memory.per_device.weights", "kv", "x", ""])
        return st.builds("{}={}".format, keys, st.sampled_from([*WORDS["counts"], *ODD])) | model(places)
    elif not known:
        known = WORDS["options"].get(spelling) or WORDS["options"].get(option.metavar) or WORDS["counts"]
    return st.one_of(*[st.sampled_from([*map(str, known)])] * ODDNESS, st.sampled_from(ODD))


@st.composite
def lines(draw: st.DrawFn, places: dict[str, Any], names: tuple[str, ...] = tuple(COMMANDS)) -> list[str]:
    """A command, what stands in its places, and some of its options."""
    name = draw(st.sampled_from(names))
    words = [name]
    own = COMMANDS[name].parameters
    for parameter in own:
        option = plain(parameter.annotation)[2]
        if option.positional and (parameter.required or draw(st.booleans())):
            words += draw(
                st.lists(value(name, parameter, places), min_size=1, max_size=3 if "..." in option.metavar else 1)
            )
    if draw(st.integers(0, 9)):
        words += NEEDS.get(name, ())
    options = [parameter for parameter in own if not plain(parameter.annotation)[2].positional]
    for parameter in draw(st.lists(st.sampled_from(options), max_size=4)):
        spelling = draw(st.sampled_from(parameter.words))
        if (name, spelling) in (
            ("validate", "--all"),
            ("validate", "--materialize"),
        ):  # minutes, or all there is of memory
            continue
        if plain(parameter.annotation)[0] is bool:
            words.append(spelling)
        elif draw(st.booleans()):
            words.append(f"{spelling}={draw(value(name, parameter, places))}")
        else:
            words += [spelling, draw(value(name, parameter, places))]
    return words


def faults(words: list[str], result: Result) -> str | None:
    """What is wrong with how a line was answered."""
    if result.status not in (0, 1, 2):
        return f"status {result.status}"
    if result.status == 2:
        if result.out:
            return "something on stdout beside an error"
        if len(result.lines) != 1:
            return f"{len(result.lines)} lines of complaint"
        if len(result.err) > 4000 or not result.err.rstrip("\n").isprintable():
            return "a complaint that is long, or not to be printed"
    if result.status == 1 and words[0] not in ("check", "fit", "validate", "presets", "serve", "design"):
        return "a no from a command that asks nothing"
    if any(line and not line.startswith(("gptcalc: ", "{")) for line in result.lines):
        return "a line on stderr that is not ours"
    return None


def answered(words: list[str], stdin: str = "") -> Result:
    return gptcalc(*words, stdin=stdin)
