"""Hub ids, against a real HTTP server on the loopback interface and against a cache without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gptcalc.sources.hub import GgufFile, Repository, gguf_file, repository
from tests.conftest import Result
from tests.sources.checkpoints import (
    DEEPSEEK_V3,
    Tensors,
    deepseek_v3,
    sharded,
    sparse,
    torch_archive,
    torch_stream,
)
from tests.sources.ggufs import written
from tests.sources.hub_server import COMMIT, Hub
from tests.sources.test_gguf import LLAMA_3_8B, llama_3_8b, parts
from tests.sources.test_packed import LAYER, TINY, tiny

TOTAL = 2 * 96 + 8 + 2 * LAYER


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("Qwen/Qwen3-8B", Repository("Qwen/Qwen3-8B")),
        ("org/name@v1.0", Repository("org/name", "v1.0")),
        ("org/name@refs/pr/3", Repository("org/name", "refs/pr/3")),
        ("https://huggingface.co/org/name", Repository("org/name")),
        ("https://huggingface.co/org/name/", Repository("org/name")),
        ("huggingface.co/org/name/tree/main", Repository("org/name", "main")),
        ("https://hf.co/org/name/blob/abc123/config.json", Repository("org/name", "abc123")),
        ("https://huggingface.co/org/name/resolve/main/config.json?download=true", Repository("org/name", "main")),
        ("./org/name", None),
        ("org/name/more", None),
        ("https://example.com/org/name", None),
        ("../name", None),
    ],
)
def test_what_names_a_repository(reference: str, meant: Repository | None) -> None:
    assert repository(reference) == meant


def test_pages_of_the_endpoint_are_the_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.local:8080/")
    page = "http://mirror.local:8080/org/name"
    assert repository(f"{page}/tree/v1.0") == Repository("org/name", "v1.0")
    assert gguf_file(f"{page}/blob/main/a.gguf") == GgufFile(Repository("org/name", "main"), "a.gguf")
    assert repository("http://other.local/org/name") is None


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """org/small in one file, org/sharded in two, org/gated, org/adapter, org/empty."""
    for name in ("small", "sharded", "gated", "adapter", "empty", "strange"):
        (tmp_path / "hub" / "org" / name).mkdir(parents=True)
    hub = tmp_path / "hub" / "org"
    for name in ("small", "sharded", "gated"):
        (hub / name / "config.json").write_text(json.dumps(TINY))
    for name in ("small", "gated"):
        sparse(hub / name / "model.safetensors", tiny())
    sharded(hub / "sharded", tiny(), 2)
    (hub / "adapter" / "adapter_config.json").write_text("{}")
    (hub / "strange" / "config.json").write_text(
        json.dumps({"model_type": "strange", "auto_map": {"AutoModel": "x.Y"}})
    )
    return tmp_path / "hub"


@pytest.fixture
def hub(models: Path) -> Iterator[Hub]:
    with Hub(models) as server:
        yield server


def command(home: Path, endpoint: str, *arguments: str, **environment: str) -> Result:
    """The installed command in a process of its own: huggingface_hub reads its environment when it is imported."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    settings = {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "gptcalc", *arguments],
        env={**kept, **settings}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def test_a_model_in_one_file(hub: Hub, tmp_path: Path) -> None:
    found = command(tmp_path, hub.endpoint, "params", "org/small", "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["model"], found.json["total"], found.json["stored"]) == ("small", TOTAL, TOTAL)
    assert hub.files() == {
        "config.json", "model.safetensors.index.json", "model.safetensors",
    }  # fmt: skip
    assert all(request.range for request in hub.requests if request.path.startswith("/cdn/"))
    assert all(request.token is None for request in hub.requests)


@pytest.mark.parametrize("write", [torch_archive, torch_stream])
def test_what_torch_wrote_is_read_by_ranges(
    hub: Hub, models: Path, tmp_path: Path, write: Callable[[Path, Tensors, int], Path]
) -> None:
    """pytorch_model.bin, alone and behind an index: neither the 20 MB of data nor the pickle's steps come over."""
    folder = models / "org" / "torch"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    write(folder / "pytorch_model.bin", tiny(), 20_000_000)
    found = command(tmp_path, hub.endpoint, "params", "org/torch", "--json")
    assert (found.status, found.err) == (0, "")
    assert (found.json["total"], found.json["stored"], found.json["differ"]) == (TOTAL, TOTAL, [])
    assert hub.sent < 2_000_000
    (folder / "pytorch_model.bin").rename(folder / "one.bin")
    index = {"weight_map": dict.fromkeys(tiny(), "one.bin")}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    found = command(tmp_path, hub.endpoint, "params", "org/torch", "--json")
    assert (found.status, found.err, found.json["stored"]) == (0, "", TOTAL)
    assert hub.sent < 4_000_000
    (folder / "one.bin").write_bytes(b"PK\x03\x04" + bytes(1000))
    found = command(tmp_path, hub.endpoint, "params", "org/torch", "--get", "total")
    assert (found.status, found.out) == (0, f"{TOTAL}\n")
    assert "were not compared: org/torch/one.bin: not a file that torch wrote" in found.err


def test_revisions_pages_and_other_letter_case(hub: Hub, tmp_path: Path) -> None:
    for reference in ("org/small@v1.0", "https://huggingface.co/org/small/tree/main", "ORG/Small"):
        assert command(tmp_path, hub.endpoint, "params", reference, "--get", "total").out == f"{TOTAL}\n", reference
    assert any("/resolve/v1.0/" in request.path for request in hub.requests)
    assert any(f"/resolve/{COMMIT}/" in request.path for request in hub.requests)  # the commit that the config is of


def test_other_commands_fetch_the_config_alone(hub: Hub, tmp_path: Path) -> None:
    found = command(tmp_path, hub.endpoint, "kv", "org/sharded", "--context", "16", "--get", "bytes")
    assert (found.status, found.out, found.err) == (0, f"{16 * 2 * 2 * 4 * 2}\n", "")
    assert hub.files() == {"config.json"}


def test_a_file_of_modelopt_beside_the_config(hub: Hub, models: Path, tmp_path: Path) -> None:
    """hf_quant_config.json is fetched where the repository lists it and the config says nothing, and is cached."""
    folder = models / "org" / "packed"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    own = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": own}))
    asked = ("memory", "org/packed", "--context", "16", "--engine", "vllm")
    found = command(tmp_path, hub.endpoint, *asked)
    assert (found.status, found.err) == (0, "")
    assert found.out.startswith("packed: fp8 weights as published, fp8 cache of ")
    assert hub.files() == {"config.json", "hf_quant_config.json"}
    again = command(tmp_path, hub.endpoint, *asked, HF_HUB_OFFLINE="1")
    assert (again.status, again.out) == (0, found.out)
    (folder / "config.json").write_text(json.dumps({**TINY, "quantization_config": {"quant_method": "mxfp4"}}))
    hub.requests.clear()
    found = command(tmp_path / "other", hub.endpoint, *asked)
    assert found.out.startswith("packed: mxfp4 weights as published")
    assert hub.files() == {"config.json"}


@pytest.mark.parametrize("ranges", [True, False])
def test_headers_of_a_terabyte(tmp_path: Path, ranges: bool) -> None:
    """DeepSeek-V3's headers come to some ten megabytes; a server that ignores ranges is left in time."""
    folder = tmp_path / "hub" / "org" / "deepseek"
    folder.mkdir(parents=True)
    sharded(folder, dict(deepseek_v3()), 163 if ranges else 4)
    (folder / "config.json").write_text(json.dumps(DEEPSEEK_V3))
    with Hub(tmp_path / "hub", ranges) as server:
        found = command(tmp_path, server.endpoint, "params", "org/deepseek", "--json")
        assert (found.status, found.err) == (0, "")
        assert (found.json["total"], found.json["differ"]) == (671_026_419_200, [])
        assert {row["role"]: row["params"] for row in found.json["held"]}["mtp"] == 11_610_068_224
        assert server.sent < 200_000_000


def test_a_config_is_held_against_tensors_on_the_hub(hub: Hub, models: Path, tmp_path: Path) -> None:
    folder = str(models / "org" / "small")
    assert command(tmp_path, hub.endpoint, "validate", folder, "--checkpoint", "org/sharded").status == 0
    found = command(tmp_path, hub.endpoint, "validate", folder, "--checkpoint", "org/none")
    assert (found.status, found.out) == (2, "")
    assert "org/none is not on the hub" in found.err


def test_a_gguf_file_on_the_hub(hub: Hub, models: Path, tmp_path: Path) -> None:
    """Its header alone is fetched; parts that belong together are found, a file that isn't there is named."""
    folder = models / "org" / "small"
    written(folder / "a.gguf", "llama", {**LLAMA_3_8B, "tokenizer.ggml.tokens": ["token"] * 500_000}, llama_3_8b())
    found = command(tmp_path, hub.endpoint, "params", "org/small@v1.0/a.gguf", "--json")
    assert (found.status, found.err, found.json["total"]) == (0, "", 8_030_261_248)
    assert hub.sent < 20_000_000
    parts(folder)
    page = "https://huggingface.co/org/small/blob/main/llama-00002-of-00002.gguf"
    found = command(tmp_path, hub.endpoint, "kv", page, "--context", "1024", "--get", "bytes")
    assert (found.status, found.out) == (0, f"{1024 * 131072}\n")
    found = command(tmp_path, hub.endpoint, "kv", "org/small/b.gguf")
    assert (found.status, found.out) == (2, "")
    assert "org/small has no file b.gguf" in found.err


def test_a_repository_of_gguf_files_alone(hub: Hub, models: Path, tmp_path: Path) -> None:
    """One model is read; of several one must be named."""
    folder = models / "org" / "quantised"
    folder.mkdir()
    parts(folder)
    found = command(tmp_path, hub.endpoint, "params", "org/quantised", "--get", "total")
    assert (found.status, found.out) == (0, "8030261248\n")
    written(folder / "b.gguf", "llama", LLAMA_3_8B, llama_3_8b())
    found = command(tmp_path, hub.endpoint, "params", "org/quantised")
    assert (found.status, found.out) == (2, "")
    assert (
        "org/quantised has no config.json; name a file: org/quantised/b.gguf, org/quantised/llama-00001-of" in found.err
    )


def test_gated_repositories_want_a_token(hub: Hub, tmp_path: Path) -> None:
    found = command(tmp_path, hub.endpoint, "params", "org/gated")
    assert (found.status, found.out) == (2, "")
    page = f"{hub.endpoint}/org/gated"
    said = f"org/gated is gated; accept its conditions on {page} and set HF_TOKEN (or run hf auth login)"
    assert found.lines == [f"gptcalc: {said}"]
    found = command(tmp_path, hub.endpoint, "params", "org/gated", "--get", "total", HF_TOKEN="secret")
    assert (found.status, found.out) == (0, f"{TOTAL}\n")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("org/none", "org/none is not on the hub; if it is private, set HF_TOKEN"),
        ("org/small@v9", "org/small@v9: there is no such revision"),
        ("org/empty", "org/empty has no config.json"),
        ("org/adapter", "org/adapter: this is a LoRA adapter, without an architecture of its own; name its base model"),
        ("org/strange", "org/strange/config.json: model_type 'strange' is not known"),
    ],
)
def test_what_is_missing_is_said(hub: Hub, tmp_path: Path, reference: str, said: str) -> None:
    found = command(tmp_path, hub.endpoint, "params", reference)
    assert (found.status, found.out, len(found.lines)) == (2, "", 1)
    assert said in found.err


def test_a_filled_cache_offline(hub: Hub, models: Path, tmp_path: Path) -> None:
    """Without a connection the cache answers, its tensors included where they are there; letter case is ignored."""
    assert command(tmp_path, hub.endpoint, "kv", "org/small", "--get", "bytes").status == 0
    offline = {"HF_HUB_OFFLINE": "1"}
    found = command(tmp_path, hub.endpoint, "params", "ORG/small", "--get", "total", **offline)
    assert (found.status, found.out) == (0, f"{TOTAL}\n")
    assert "the tensors beside the config were not compared" in found.err
    snapshot = next((tmp_path / "hub").glob("models--org--small/snapshots/*"))
    (snapshot / "model.safetensors").write_bytes((models / "org" / "small" / "model.safetensors").read_bytes())
    found = command(tmp_path, hub.endpoint, "params", "org/small", "--json", **offline)
    assert (found.status, found.err, found.json["stored"]) == (0, "", TOTAL)
    found = command(tmp_path, hub.endpoint, "params", "org/sharded", **offline)
    problem = "org/sharded: neither an existing path nor a hub id that a preset lists nor in the cache"
    assert len(found.lines) == 1
    assert f"gptcalc: {problem}, and HF_HUB_OFFLINE is set" in found.err


@pytest.mark.parametrize("file", ["", "/a.gguf"])
def test_no_connection(tmp_path: Path, file: str) -> None:
    found = command(tmp_path, "http://127.0.0.1:9", "params", f"org/name{file}")
    assert (found.status, found.out) == (2, "")
    problem = "org/name: neither an existing path nor a hub id that a preset lists nor in the cache"
    assert found.lines == [f"gptcalc: {problem}, and http://127.0.0.1:9 can't be reached"]


def test_without_the_extra(tmp_path: Path) -> None:
    """A module that can't be imported stands for one that isn't installed."""
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError\n")
    found = command(tmp_path, "http://127.0.0.1:9", "params", "org/name", PYTHONPATH=str(tmp_path))
    problem = "org/name: neither an existing path nor a hub id that a preset lists"
    assert found.lines == [f"gptcalc: {problem}; pip install 'gptcalc[hub]' reads it from the hub"]


def test_code_of_a_repository_is_never_run(hub: Hub, models: Path, tmp_path: Path) -> None:
    folder = models / "org" / "small"
    config: dict[str, Any] = {**TINY, "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    command(tmp_path, hub.endpoint, "params", "org/small")
    assert not (tmp_path / "ran").exists()
    assert not any("evil" in request.path for request in hub.requests)
