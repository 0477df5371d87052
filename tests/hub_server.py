"""A small server with the part of the hub's protocol that loading uses, for tests without network.

It serves directories ``models/OWNER/NAME`` and ``datasets/OWNER/NAME``, each at one commit, which is also its branch
``main``. ``requests`` holds what was asked for.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


def commit_of(repository: Path) -> str:
    """A repository's commit: a hash of its name."""
    return hashlib.sha1(f"{repository.parent.name}/{repository.name}".encode()).hexdigest()


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    requests: list[str]

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        self.requests.append(f"POST {path}")
        parts = path.strip("/").split("/")
        repository = self.root.joinpath(*parts[1:4])
        if parts[:1] != ["api"] or "paths-info" not in parts:
            return self._missing("RepoNotFound")
        wanted = json.loads(body)["paths"] if body.startswith(b"{") else []
        return self._send(json.dumps([row for row in self._tree(repository) if row["path"] in wanted]))

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            return self._api(self.root.joinpath(*parts[1:4]), parts[4:])
        kind = "datasets" if parts[0] == "datasets" else "models"
        owner, name, _, revision, *rest = parts[1:] if kind == "datasets" else parts
        repository = self.root / kind / owner / name
        if revision not in ("main", commit_of(repository)):
            return self._missing("RevisionNotFound")
        file = repository.joinpath(*rest)
        if not file.is_file():
            return self._missing("EntryNotFound", commit_of(repository))
        content = file.read_bytes()
        tag = hashlib.sha256(content).hexdigest()
        return self._send(content, {"ETag": f'"{tag}"', "X-Repo-Commit": commit_of(repository)})

    def _api(self, repository: Path, rest: list[str]):
        if not repository.is_dir():
            return self._missing("RepoNotFound")
        if len(rest) >= 2 and rest[1] not in ("main", commit_of(repository)):
            return self._missing("RevisionNotFound")
        if rest[:1] == ["tree"]:
            folder = "/".join(rest[2:])
            rows = [row for row in self._tree(repository) if row["path"].startswith(f"{folder}/") or not folder]
            return self._send(json.dumps(rows)) if rows else self._missing("EntryNotFound")
        files = [{"rfilename": row["path"], "size": row["size"]} for row in self._tree(repository)]
        name = f"{repository.parent.name}/{repository.name}"
        info = {
            "id": name,
            "_id": "0",
            "sha": commit_of(repository),
            "siblings": files,
            "tags": [],
            "private": False,
            "downloads": 0,
            "likes": 0,
        }
        return self._send(json.dumps(info))

    @staticmethod
    def _tree(repository: Path) -> list[dict]:
        files = sorted(path for path in repository.rglob("*") if path.is_file())
        return [
            {
                "type": "file",
                "path": str(path.relative_to(repository)),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(str(path).encode()).hexdigest(),
            }
            for path in files
        ]

    def _missing(self, code: str, commit: str = ""):
        self._send(b"{}", {"X-Error-Code": code, "X-Repo-Commit": commit}, 404)

    def _send(self, content: bytes | str, headers: dict[str, str] | None = None, status: int = 200):
        content = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def hub(root: Path):
    """Serve the repositories below ``root``; gives (endpoint, list of requests)."""
    requests: list[str] = []
    handler = type("Hub", (_Hub,), {"root": root, "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
