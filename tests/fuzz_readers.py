"""Binary readers on bytes that a fuzzer makes up: run by hand, `python -m tests.fuzz_readers READER [SECONDS]`.

Anything but an answer or an InputError is a finding, and so is a second of work. Needs atheris, which is in no extra.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gptcalc.sources", "gptcalc.document"]):
    from gptcalc.analysis.stored import by_name
    from gptcalc.document import build
    from gptcalc.errors import InputError
    from gptcalc.sources.checkpoint import header
    from gptcalc.sources.gguf import described
    from gptcalc.sources.packed import contents

from tests.golden_models import FOLDER
from tests.sources.gguf_conversion import convert
from tests.sources.test_packed import FORMATS, save

HOSTILE = Path(__file__).parent / "hostile"
LONGEST = 2**15  # headers of the samples are shorter


def samples(reader: str, folder: Path) -> list[Path]:
    """Files to begin with."""
    if reader == "pytorch":
        return list((HOSTILE.parent / "data" / "torch").glob("*.bin"))
    if reader == "safetensors":
        for number, (tensors, _) in enumerate(FORMATS.values()):
            save(folder / f"{number}.safetensors", tensors)
    else:
        for name in ("llama_gqa", "gemma3n_text", "deepseek_v3", "gpt_oss", "gemma4_text_moe", "mpt_alibi"):
            convert(FOLDER / name, folder / f"{name}.gguf")
    return [*HOSTILE.glob(f"*.{reader}"), *folder.glob(f"*.{reader}")]


SUFFIXES = {"safetensors": ".safetensors", "gguf": ".gguf", "pytorch": ".bin"}


def target(file: Path) -> Callable[[bytes], None]:
    """One run: header, roles, and for a GGUF file its architecture."""

    def run(data: bytes) -> None:
        file.write_bytes(data)
        if file.suffix == ".gguf" and len(data) % 2:  # a hole for the data, so that what the header says is reached
            os.truncate(file, 2**20)
        begin = time.process_time()
        try:
            by_name(contents(header(file)))
            if file.suffix == ".gguf":
                build(described(file, "model"))
        except InputError:
            pass
        assert time.process_time() - begin < 1

    return run


def main() -> None:
    reader, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "600"
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        corpus, made = Path(folder, "corpus"), Path(folder, "made")
        corpus.mkdir()
        made.mkdir()
        for number, sample in enumerate(samples(reader, made)):
            (corpus / str(number)).write_bytes(sample.read_bytes()[:LONGEST])
        options = [
            "-artifact_prefix=/tmp/",
            f"-max_total_time={seconds}",
            "-timeout=60",
            "-rss_limit_mb=500",
            f"-max_len={LONGEST}",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus)], target(Path(folder, f"a{SUFFIXES[reader]}")))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
