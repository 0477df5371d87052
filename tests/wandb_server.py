"""A local server that speaks as much of W&B's protocol as uploading a run needs, and keeps the runs."""

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class StoredRun:
    """What the server has of a run: its rows as JSON, and how it was described at last."""

    history: list[str] = field(default_factory=list)
    summary: dict = field(default_factory=dict)
    uploads: int = 0
    variables: dict = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        return [json.loads(row)["_step"] for row in self.history]


@dataclass
class WandbServer:
    """Runs by id, and where the server listens."""

    url: str = ""
    runs: dict[str, StoredRun] = field(default_factory=dict)

    def graphql(self, query: str, variables: dict) -> dict:
        name = variables.get("name")
        project = {"id": "p", "name": "p", "entity": {"id": "e", "name": "someone"}}
        if "upsertBucket" in query:
            new = name not in self.runs
            run = self.runs.setdefault(name, StoredRun())
            run.variables |= {key: value for key, value in variables.items() if value is not None}
            bucket = {
                "id": "i",
                "name": name,
                "displayName": name,
                "description": "",
                "config": "{}",
                "sweepName": None,
                "historyLineCount": len(run.history),
                "project": project,
            }
            return {"upsertBucket": {"bucket": bucket, "inserted": new}}
        if "RunResumeStatus" in query:
            run = self.runs.get(name)
            bucket = run and {
                "id": "i",
                "name": name,
                "displayName": name,
                "historyLineCount": len(run.history),
                "eventsLineCount": 0,
                "logLineCount": 0,
                "historyTail": json.dumps(run.history[-1:]),
                "eventsTail": "[]",
                "summaryMetrics": json.dumps(run.summary),
                "config": "{}",
                "tags": [],
                "notes": None,
                "wandbConfig": '{"t": 1}',
            }
            return {"model": {**project, "bucket": bucket}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "i", "uploadHeaders": [], "files": files}}
        if "viewer" in query:
            viewer = {"id": "u", "entity": "someone", "username": "u", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": viewer}
        if "serverInfo" in query:
            return {"serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "99"}}}
        return {}

    def stream(self, run_id: str, content: dict) -> None:
        run, files = self.runs[run_id], content.get("files", {})
        if rows := files.get("wandb-history.jsonl"):
            start = rows["offset"]
            run.history[start : start + len(rows["content"])] = rows["content"]
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        run.uploads += content.get("complete", False)


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments) -> None:
            pass

        def _body(self) -> bytes:
            body = b""
            if self.headers.get("transfer-encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
            return gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body

        def _answer(self, value: dict) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer({})

        def do_PUT(self) -> None:
            self._body()
            self._answer({})

        def do_POST(self) -> None:
            body = self._body()
            answer: dict = {}
            if self.path == "/graphql":
                request = json.loads(body)
                answer = {"data": server.graphql(request["query"], request.get("variables") or {})}
            elif self.path.endswith("/file_stream"):
                server.stream(self.path.split("/")[-2], json.loads(body))
            self._answer(answer)

    return Handler


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address) -> None:
        """Clients close connections that they keep alive."""


@contextlib.contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """Serve on a free port of this machine."""
    stored = WandbServer()
    server = _QuietServer(("127.0.0.1", 0), _handler(stored))
    stored.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield stored
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
