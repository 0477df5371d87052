"""A local server that speaks as much of W&B's protocol as uploading a run needs, and keeps the rows of runs."""

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROJECT = {"id": "p", "name": "p", "entity": {"id": "e", "name": "someone"}}
VIEWER = {"id": "u", "entity": "someone", "username": "u", "flags": "{}", "teams": {"edges": []}}


@dataclass
class WandbServer:
    """Rows of runs as JSON, by the run's id, and where the server listens."""

    url: str = ""
    runs: dict[str, list[str]] = field(default_factory=dict)

    def steps(self) -> list[list[int]]:
        """The steps that each run has."""
        return [[json.loads(row)["_step"] for row in rows] for rows in self.runs.values()]

    def graphql(self, query: str, variables: dict) -> dict:
        name = variables.get("name")
        known = self.runs.get(name)
        bucket = {"id": "i", "name": name, "displayName": name, "config": "{}", "historyLineCount": len(known or ())}
        if "upsertBucket" in query:
            self.runs.setdefault(name, [])
            return {"upsertBucket": {"bucket": {**bucket, "project": PROJECT}, "inserted": known is None}}
        if "RunResumeStatus" in query:
            tails = {"historyTail": json.dumps(known[-1:]) if known else "[]", "eventsTail": "[]"}
            counts = {"eventsLineCount": 0, "logLineCount": 0}
            texts = {"summaryMetrics": "{}", "tags": [], "notes": None, "wandbConfig": '{"t": 1}'}
            resumed = None if known is None else {**bucket, **tails, **counts, **texts}
            return {"model": {**PROJECT, "bucket": resumed}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "i", "uploadHeaders": [], "files": files}}
        if "viewer" in query:
            return {"viewer": VIEWER}
        if "serverInfo" in query:
            return {"serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "99"}}}
        return {}

    def stream(self, run_id: str, content: dict) -> None:
        if rows := content.get("files", {}).get("wandb-history.jsonl"):
            start = rows["offset"]
            self.runs[run_id][start : start + len(rows["content"])] = rows["content"]


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments) -> None:
            pass

        def _body(self) -> bytes:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            return gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body

        def _answer(self) -> None:
            body, answer = self._body(), {}
            if self.path == "/graphql":
                request = json.loads(body)
                answer = {"data": server.graphql(request["query"], request.get("variables") or {})}
            elif self.path.endswith("/file_stream"):
                server.stream(self.path.split("/")[-2], json.loads(body))
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = _answer

    return Handler


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address) -> None:
        """Clients close connections that they keep alive."""


@contextlib.contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """Serve on a free port of this machine."""
    stored = WandbServer()
    with _QuietServer(("127.0.0.1", 0), _handler(stored)) as server:
        stored.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield stored
        finally:
            server.shutdown()
            thread.join()
