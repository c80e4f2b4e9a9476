"""Models on the Hugging Face hub: the config, and of the tensors nothing but headers, by range requests.

huggingface_hub does the talking: its cache and token, HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE hold. It comes
with the extra `hub` and is imported here alone, when an id is not a preset's. No code of a repository is ever run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader, BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from gptcalc.errors import InputError, is_count, printable
from gptcalc.sources import pytorch, safetensors
from gptcalc.sources.gguf import reader
from gptcalc.sources.header import LONGEST_HEADER, SCHEME, Header, Steps
from gptcalc.sources.paths import CONFIG, WHOLE
from gptcalc.sources.ranges import PIECE, Ranged

ADAPTER = "adapter_config.json"
FIRST_BYTES = 100_000  # most headers of shards are shorter: one request for each
CONNECTIONS = 8
INSTALL = "pip install 'gptcalc[hub]'"

NAME = r"[A-Za-z0-9][\w.-]{0,95}"
ID = re.compile(rf"(?:hf://(?:models/)?)?({NAME}/{NAME})(?:@([\w./-]{{0,249}}[\w.-]))?/?")
URL = re.compile(
    rf"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?:models/)?({NAME}/{NAME})"
    r"(?:/(?:tree|blob|resolve)/([\w.-]{1,250})(?:/.*)?)?/?(?:[?#].*)?"
)


class Repository(NamedTuple):
    """A model on the hub, and the revision that is meant; None: the newest."""

    id: str
    revision: str | None = None

    @property
    def name(self) -> str:
        return self.id if self.revision is None else f"{self.id}@{self.revision}"


class Config(NamedTuple):
    """A repository's config.json in the local cache, and the repository at the commit that it is of."""

    path: str
    repository: Repository


def _as_huggingfaces(reference: str) -> str:
    """A page of the hub that HF_ENDPOINT names, such as a mirror, as that of huggingface.co."""
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint and reference.startswith(f"{endpoint}/"):
        return f"https://huggingface.co{reference.removeprefix(endpoint)}"
    return reference


def repository(reference: str) -> Repository | None:
    """What a reference means: org/name, org/name@revision, the page of a model. None: something else."""
    match = URL.fullmatch(_as_huggingfaces(reference)) or ID.fullmatch(reference)
    return None if match is None else Repository(match[1], match[2])


def config(repo: Repository) -> Config:
    """Fetch a config.json, or find it in the cache. InputError saying what is missing, forbidden or out of reach."""
    repo = _as_cached(repo)
    try:
        path = _download(repo, CONFIG)
    except _Absent:
        try:
            _download(repo, ADAPTER)
        except _Absent:
            raise _without_config(repo) from None
        problem = f"{repo.name}: this is a LoRA adapter, without an architecture of its own"
        raise InputError(problem, "name its base model", "unsupported") from None
    commit = os.path.basename(os.path.dirname(path))  # the cache's folder of a snapshot
    return Config(path, repo if re.fullmatch("[0-9a-f]{40}", commit) is None else Repository(repo.id, commit))


def beside(found: Config, names: Collection[str]) -> str | None:
    """The first of these small files beside a config, in the cache or on the hub. None: the repository lists none, or
    can't be asked."""
    for name in names:
        path = os.path.join(os.path.dirname(found.path), name)
        if os.path.isfile(path):
            return path
    try:
        listed = _at_the_top(found.repository)
    except InputError:  # the config alone was in the cache
        return None
    first = next((name for name in names if name in listed), None)
    return None if first is None else _download(found.repository, first)


def _at_the_top(repo: Repository) -> set[str]:
    """The files and folders of a repository."""
    with _plainly(repo):
        from huggingface_hub import HfApi, constants

        if constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT):
            raise _unreachable(repo)
        api = HfApi(endpoint=constants.ENDPOINT)
        return {entry.path for entry in api.list_repo_tree(repo.id, revision=repo.revision)}


class WithoutConfig(InputError):
    """A repository has no config.json; its GGUF files, of those in parts the first."""

    def __init__(self, repo: Repository, files: list[str]) -> None:
        named = ", ".join(f"{repo.name}/{printable(name)}" for name in files[:3])
        more = f" or one of {len(files) - 3} others" if len(files) > 3 else ""
        hint = f"name a file: {named}{more}" if files else "name a repository of a transformers model"
        super().__init__(f"{repo.name} has no {CONFIG}", hint, "file")
        self.repository = repo
        self.files = files

    @property
    def only(self) -> GgufFile | None:
        return GgufFile(self.repository, self.files[0]) if len(self.files) == 1 else None


def _without_config(repo: Repository) -> WithoutConfig:
    with _plainly(repo):
        from huggingface_hub import HfApi, constants

        names = HfApi(endpoint=constants.ENDPOINT).list_repo_files(repo.id, revision=repo.revision)
    files = sorted(name for name in names if name.endswith(".gguf"))
    parts = [(name, reader.SPLIT.fullmatch(name.rpartition("/")[2])) for name in files]
    return WithoutConfig(repo, [name for name, part in parts if part is None or int(part[2]) == 1])


#: what a whole checkpoint may be called, with the suffix of its files: what is looked for first in front
LAYOUTS = ((*WHOLE[:2], ".safetensors"), (*WHOLE[2:], ".bin"))


def tensors(found: Config) -> str:
    """Where the tensors are: in the cache with the config, or on the hub."""
    folder = os.path.dirname(found.path)
    for *names, suffix in LAYOUTS:
        index, single = (os.path.join(folder, name) for name in names)
        if os.path.isfile(single):
            return single
        if os.path.isfile(index):
            shards = set(safetensors.weight_map_of(Path(index), suffix).values())
            if all(os.path.isfile(os.path.join(folder, shard)) for shard in shards):
                return index
    return SCHEME + found.repository.name


def config_of(reference: str) -> str:
    """The config.json of a repository whose tensors are written so."""
    repo = repository(reference.removeprefix(SCHEME))
    assert repo is not None
    return config(repo).path


def header(reference: str, steps: Steps = iter) -> Header:
    """The header of a repository's safetensors files, or of those that torch wrote: an index, and of the shards what
    tells their tensors."""
    repo = repository(reference.removeprefix(SCHEME))
    assert repo is not None
    for index, single, suffix in LAYOUTS:
        try:
            return _sharded(repo, _download(repo, index), suffix, steps)
        except _Absent:
            with suppress(_Absent):
                return _Remote(repo, single).header()
    raise InputError(f"{repo.name}: no {', no '.join(WHOLE[1::2])} and no index of either", kind="checkpoint")


def _sharded(repo: Repository, index: str, suffix: str, steps: Steps) -> Header:
    def shards(names: list[str]) -> Iterator[Header]:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            yield from (found for _, found in zip(steps(names), pool.map(one, names), strict=True))

    def one(name: str) -> Header:
        try:
            return _Remote(repo, name).header()
        except _Absent:
            raise InputError(f"{repo.name}: shard {printable(name)} is missing", kind="checkpoint") from None

    return safetensors.sharded(Path(index), suffix, shards)


# --- GGUF -------------------------------------------------------------------------------------------------------------

GGUF_ID = re.compile(rf"({NAME}/{NAME})(?:@([\w./-]{{1,250}}?))?/((?:[\w.-]+/)*[\w.-]+\.gguf)")
GGUF_URL = re.compile(
    rf"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/({NAME}/{NAME})/(?:blob|resolve)/([\w.-]{{1,250}})"
    r"/((?:[\w.-]+/)*[\w.-]+\.gguf)(?:[?#].*)?"
)
FIRST_OF_GGUF = 2**22  # metadata hold the tokenizer: some megabytes


class GgufFile(NamedTuple):
    """One GGUF file of a repository; of several that belong together, any."""

    repository: Repository
    name: str


def gguf_file(reference: str) -> GgufFile | None:
    """What org/name/FILE.gguf, org/name@revision/FILE.gguf and the page of such a file mean."""
    match = GGUF_URL.fullmatch(_as_huggingfaces(reference)) or GGUF_ID.fullmatch(reference)
    return None if match is None else GgufFile(Repository(match[1], match[2]), match[3])


@cache
def gguf_header(file: GgufFile) -> Path:
    """A local file with the header of one on the hub, and a hole for its data; of all parts where there are several."""
    folder = Path(_temporary().name, str(len(os.listdir(_temporary().name))))
    folder.mkdir()
    match = reader.SPLIT.fullmatch(file.name.rpartition("/")[2])
    base = file.name.rpartition("/")[0]
    count = min(int(match[3]), reader.MOST_FILES) if match else 1
    names = [f"{match[1]}-{i:05d}-of-{match[3]}.gguf" for i in range(1, count + 1)] if match else [Path(file.name).name]
    for name in names:
        try:
            _fetch_header(_Remote(file.repository, f"{base}/{name}" if base else name), folder / name)
        except _Absent:
            raise InputError(f"{file.repository.name} has no file {printable(name)}", kind="hub") from None
    return folder / Path(file.name).name


@cache
def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="gptcalc-")  # goes away with this run


def _fetch_header(remote: _Remote, path: Path) -> None:
    """As much from the beginning as the header takes: twice as much whenever that was too little."""
    count = FIRST_OF_GGUF
    while True:
        data = remote.fetch(0, count)
        with path.open("wb") as file:
            file.write(data)
            file.truncate(remote.size)
        whole = len(data) >= min(remote.size, LONGEST_HEADER)
        try:
            if reader.length(path) <= len(data) or whole:
                return
        except InputError:
            if whole:
                raise
        count *= 2


class _Remote:
    """One file of a repository, of which parts are fetched."""

    def __init__(self, repo: Repository, name: str) -> None:
        self.repo = repo
        self.name = name
        self.size = 0
        self.begin = b""

    def header(self) -> Header:
        self.begin = self.fetch(0, FIRST_BYTES)
        path = Path(self.repo.id, self.name)
        if not self.name.endswith(".bin"):
            return safetensors.parsed(path, self.size, self.read)
        if pytorch.is_archive(self.begin):
            return pytorch.parsed(path, self.size, BufferedReader(Ranged(self.size, self.read), PIECE))
        return self.stream(path)

    def stream(self, path: Path) -> Header:
        """Of what torch wrote before 1.6: as much from the beginning as describes the tensors."""
        count = FIRST_BYTES
        while True:
            whole = count >= min(self.size, pytorch.LONGEST_PICKLE)
            try:
                return pytorch.parsed(path, self.size, BytesIO(self.read(0, count)))
            except InputError:
                if whole:
                    raise
            count *= 4

    def read(self, start: int, count: int) -> bytes:
        if start + count <= len(self.begin):
            return self.begin[start : start + count]
        return self.fetch(start, count)

    def fetch(self, start: int, count: int) -> bytes:
        """A range of the file. A server that ignores ranges sends all of it, of which no more is read than needed."""
        from huggingface_hub import constants, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        with _plainly(self.repo):
            if not constants.HF_HUB_OFFLINE and not _reachable(constants.ENDPOINT):
                raise _unreachable(self.repo)
        url = hf_hub_url(self.repo.id, self.name, revision=self.repo.revision)
        wanted = {**build_hf_headers(), "Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        with _plainly(self.repo), get_session().stream("GET", url, headers=wanted, timeout=TIMEOUT) as response:
            if response.status_code not in (200, 206):
                response.read()
                hf_raise_for_status(response)
            skip = start if response.status_code == 200 else 0
            total = response.headers.get("Content-Range", "").rpartition("/")[2] if skip == 0 else ""
            total = total or response.headers.get("Content-Length", "")
            if not is_count(total, 18):
                raise InputError(f"{self.repo.name}: {self.name}: the hub doesn't say how long it is", kind="file")
            self.size = int(total)
            return _taken(response.iter_raw(), skip, count)


TIMEOUT = 30


def _taken(chunks: Iterable[bytes], skip: int, count: int) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) >= skip + count:
            break
    return bytes(data[skip : skip + count])


# --- huggingface_hub, and what it complains of ------------------------------------------------------------------------


class _Absent(Exception):
    """A repository is there, a file in it is not."""


def _download(repo: Repository, name: str) -> str:
    """A small file of a repository, in the local cache."""
    with _plainly(repo):
        from huggingface_hub import constants, hf_hub_download

        kept = constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT)
        revision = repo.revision
        return str(hf_hub_download(repo.id, name, revision=revision, etag_timeout=TIMEOUT, local_files_only=kept))


@cache
def _reachable(endpoint: str) -> bool:
    """Whether the hub answers at all; the library itself would try for half a minute."""
    from huggingface_hub.utils import get_session

    try:
        get_session().head(endpoint, timeout=TIMEOUT, follow_redirects=False)
    except Exception:  # of the HTTP library, which differs between versions
        return False
    return True


@contextmanager
def _plainly(repo: Repository) -> Iterator[None]:
    """What goes wrong, in one line with the mend."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # nothing is asked for beyond the files
    try:
        from huggingface_hub import errors
        from huggingface_hub.utils import disable_progress_bars, logging
    except ImportError:
        problem = f"{repo.name}: neither an existing path nor a hub id that a preset lists"
        raise InputError(problem, f"{INSTALL} reads it from the hub", "unknown") from None
    disable_progress_bars()
    logging.set_verbosity_error()
    try:
        yield
    except (InputError, _Absent):
        raise
    except errors.GatedRepoError:
        hint = f"accept its conditions on {_page(repo)} and set HF_TOKEN (or run hf auth login)"
        raise InputError(f"{repo.name} is gated", hint, "hub") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"{repo.name} is not on the hub", "if it is private, set HF_TOKEN", "hub") from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{repo.name}: there is no such revision", kind="hub") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        raise _unreachable(repo) from None
    except errors.EntryNotFoundError:
        raise _Absent from None
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "no")
        raise InputError(f"{repo.name}: the hub answers with status {status}", kind="hub") from None
    except Exception as error:  # the HTTP library's own, which differs between versions
        raise InputError(f"{repo.name}: {type(error).__name__}: {printable(str(error), 200)}", kind="hub") from None


def _unreachable(repo: Repository) -> InputError:
    from huggingface_hub import constants

    problem = f"{repo.name}: neither an existing path nor a hub id that a preset lists nor in the cache"
    if constants.HF_HUB_OFFLINE:
        return InputError(f"{problem}, and HF_HUB_OFFLINE is set", kind="hub")
    return InputError(f"{problem}, and {constants.ENDPOINT} can't be reached", kind="hub")


def _page(repo: Repository) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repo.id}"


def _as_cached(repo: Repository) -> Repository:
    """The id as the cache spells it: the hub ignores the case of letters, a folder's name may not."""
    try:
        from huggingface_hub import constants

        kept = os.listdir(constants.HF_HUB_CACHE)
    except (ImportError, OSError):  # the first is said where it is needed
        return repo
    wanted = "models--" + repo.id.replace("/", "--")
    same = [name for name in kept if name.lower() == wanted.lower()]
    if wanted in same or not same:
        return repo
    return repo._replace(id=same[0].removeprefix("models--").replace("--", "/", 1))
