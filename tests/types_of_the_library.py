"""Read by the type checker alone: an ignored error that is none is an error (mypy's warn_unused_ignores)."""

import gptcalc

gptcalc.kv("gpt2", context=8, kv_dtype="fp8")
gptcalc.kv("gpt2", contxt=8)  # type: ignore[call-arg]
gptcalc.kv("gpt2", engine="vlm")  # type: ignore[arg-type]
gptcalc.flops("gpt2", phase="trian")  # type: ignore[arg-type]
gptcalc.memory("gpt2", tp="2")  # type: ignore[arg-type]
gptcalc.memory("gpt2", zero=1)  # type: ignore[call-arg]
gptcalc.fit("gpt2", "1GiB", utilization=0.9)
gptcalc.fit("gpt2")  # type: ignore[call-arg]
