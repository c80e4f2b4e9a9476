"""A small hub on the loopback interface: files of repositories, ranges, redirects, the errors of the real one."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Request(NamedTuple):
    method: str
    path: str
    range: str | None
    token: str | None


class Hub:
    """Serves FOLDER/org/name/file. Repositories named `gated` want a token; large files are redirected to a CDN."""

    def __init__(self, folder: Path, ranges: bool = True) -> None:
        self.folder = folder
        self.ranges = ranges
        self.requests: list[Request] = []
        self.sent = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                hub.answer(self)

            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    def files(self) -> set[str]:
        """The names of the files that were asked for; what the library asks for itself is left out."""
        return {request.path.rpartition("/")[2] for request in self.requests if "/resolve/" in request.path}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = request.headers
        self.requests.append(Request(request.command, request.path, headers.get("Range"), headers.get("Authorization")))
        if request.path.startswith("/cdn/"):
            self.file(request, self.folder / request.path.removeprefix("/cdn/"))
            return
        listed = re.fullmatch(r"/api/models/([^/]+)/([^/]+)/tree/[^/]+\?.*", request.path)
        if listed is not None:
            self.tree(request, self.folder / listed[1] / listed[2])
            return
        match = re.fullmatch(r"/([^/]+)/([^/]+)/resolve/([^/]+)/(.+)", request.path)
        if match is None:
            self.error(request, 404, "")
            return
        org, name, revision, file = match.groups()
        if org != org.lower():  # the canonical spelling here
            self.redirect(request, f"/{org.lower()}/{name.lower()}/resolve/{revision}/{file}")
        elif not (self.folder / org / name).is_dir():
            self.error(request, 404, "RepoNotFound")
        elif name == "gated" and headers.get("Authorization") != "Bearer secret":
            self.error(request, 403, "GatedRepo")
        elif revision not in ("main", "v1.0", COMMIT):
            self.error(request, 404, "RevisionNotFound")
        elif not (path := self.folder / org / name / file).is_file():
            self.error(request, 404, "EntryNotFound")
        elif file.endswith((".safetensors", ".gguf", ".bin")):
            self.redirect(request, f"/cdn/{org}/{name}/{file}", path.stat().st_size)
        else:
            self.file(request, path)

    def tree(self, request: BaseHTTPRequestHandler, folder: Path) -> None:
        """The list of a repository's files."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        rows = [
            {"type": "file", "path": str(path.relative_to(folder)), "size": path.stat().st_size, "oid": COMMIT}
            for path in files
        ]
        body = json.dumps(rows).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def error(self, request: BaseHTTPRequestHandler, status: int, code: str) -> None:
        request.send_response(status)
        request.send_header("X-Error-Code", code)
        request.send_header("X-Repo-Commit", COMMIT)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def redirect(self, request: BaseHTTPRequestHandler, to: str, size: int | None = None) -> None:
        request.send_response(302 if size is not None else 307)
        if size is None:
            request.send_header("Location", to)
        else:
            request.send_header("Location", f"{self.endpoint}{to}")
            request.send_header("X-Linked-Size", str(size))
            request.send_header("X-Linked-Etag", '"linked"')
            request.send_header("X-Repo-Commit", COMMIT)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def file(self, request: BaseHTTPRequestHandler, path: Path) -> None:
        size = path.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", "")) if self.ranges else None
        start, end = (int(wanted[1]), min(int(wanted[2]), size - 1)) if wanted else (0, size - 1)
        request.send_response(206 if wanted else 200)
        request.send_header("X-Repo-Commit", COMMIT)
        request.send_header("ETag", f'"{path.name}-{size}"')
        request.send_header("Content-Length", str(end - start + 1))
        if wanted:
            request.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        request.end_headers()
        if request.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(start)
            left = end - start + 1
            while left > 0:
                chunk = file.read(min(left, 2**16))
                try:
                    request.wfile.write(chunk)
                except OSError:  # the reader has seen enough
                    return
                self.sent += len(chunk)
                left -= len(chunk)
