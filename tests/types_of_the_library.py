"""Read by the type checker alone: an ignored error that is none is an error (mypy's warn_unused_ignores)."""

from pathlib import Path
from typing import Any, assert_type

import gptcalc

gptcalc.kv("gpt2", context=8, kv_dtype="fp8")
gptcalc.kv("gpt2", contxt=8)  # type: ignore[call-arg]
gptcalc.kv("gpt2", engine="vlm")  # type: ignore[arg-type]
gptcalc.flops("gpt2", phase="trian")  # type: ignore[arg-type]
gptcalc.memory("gpt2", tp="2")  # type: ignore[arg-type]
gptcalc.memory("gpt2", zero=1)  # type: ignore[call-arg]
gptcalc.fit("gpt2", "1GiB", utilization=0.9)
gptcalc.fit("gpt2")  # type: ignore[call-arg]
gptcalc.memory("gpt2", draft=gptcalc.load("gpt2"))
gptcalc.fit("gpt2", 2**30, draft=3)  # type: ignore[arg-type]
assert_type(gptcalc.serve("gpt2", "h100-sxm", draft="gpt2", context=8).tokens, int)
gptcalc.serve("gpt2")  # type: ignore[call-arg]
gptcalc.load(Path("config.json"))
gptcalc.load({"d": 8})
gptcalc.load(3)  # type: ignore[arg-type]
assert_type(gptcalc.params("gpt2").total, int)
assert_type(gptcalc.params("gpt2").to_dict(), dict[str, Any])
assert_type(gptcalc.training("gpt2", zero=1, optimizer="adam").per_device.total, int)
gptcalc.training("gpt2", zero=4)  # type: ignore[arg-type]
gptcalc.training("gpt2", kv_dtype="fp8")  # type: ignore[call-arg]
gptcalc.compare(["gpt2", gptcalc.load("gpt2")], columns="total", context=8)
gptcalc.compare(["gpt2"], columns=8)  # type: ignore[arg-type]
gptcalc.compare(8)  # type: ignore[arg-type]
assert_type(gptcalc.diff("gpt2", "gpt2-medium", context=8).context, int)
gptcalc.diff("gpt2")  # type: ignore[call-arg]
assert_type(gptcalc.explain("gpt2", phase="decode").flops, int)
gptcalc.explain("gpt2", phase="train", mla="whole")  # type: ignore[arg-type]
assert_type(gptcalc.trace("gpt2", context=8, decode=2).flops, int)
gptcalc.trace("gpt2", tokens=[1])  # type: ignore[call-arg]
assert_type(gptcalc.presets("llama", feature=["moe"]), list[str])
gptcalc.presets(size=7)  # type: ignore[arg-type]
assert_type(gptcalc.__version__, str)
