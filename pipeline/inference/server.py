"""An HTTP server in OpenAI's protocol over one opened model; in one thread, requests share the model's steps."""

import asyncio
import contextlib
import json
import secrets
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.core.random_streams import stream_seed
from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.errors import PipelineError
from pipeline.inference.opening import context_length
from pipeline.inference.protocol import ApiError, ChatRequest, parse_request, usage, written
from pipeline.inference.token_stream import Job, Piece, SharedSteps

MOST_BYTES = 2**20  # of a request
UNLIMITED = 4096  # tokens of an answer at most where neither the request nor the checkpoint has a limit


class ModelServer:
    """The endpoints of one model; ``served`` says under which names, and whether with the adapter. ``max_new_tokens``
    limits the answers to requests that set no limit."""

    def __init__(
        self, loaded: ConditionedModel, served: Mapping[str, bool], batch_size: int, max_new_tokens: int | None = None
    ):
        self._loaded, self._served, self._longest = loaded, served, max_new_tokens or sys.maxsize
        self._context, self._created = context_length(loaded), int(time.time())
        # One thread uses the model and the tokenizer: requests that come and go do so between two steps.
        self._worker, self._stepping = ThreadPoolExecutor(1, "model"), False
        self._shared = {adapted: SharedSteps(loaded, batch_size) for adapted in served.values()}

    def application(self) -> Starlette:
        return Starlette(
            routes=[Route("/v1/models", self._models), Route("/v1/chat/completions", self._answer, methods=["POST"])],
            exception_handlers={ApiError: _refusal, HTTPException: _no_such_path, Exception: _refusal},
        )

    async def _models(self, request: Request) -> Response:
        shared = {"object": "model", "created": self._created, "owned_by": "pipeline"}
        return JSONResponse({"object": "list", "data": [{"id": name, **shared} for name in self._served]})

    async def _answer(self, request: Request) -> Response:
        try:
            content = json.loads(await _body(request))
            # JSON allows half a character, which no tokenizer takes.
            json.dumps(content, ensure_ascii=False).encode()
        except ValueError as error:
            raise ApiError(400, f"the body of the request is not JSON ({error})") from None
        body = parse_request(content)
        if body.model not in self._served:
            known = ", ".join(self._served)
            raise ApiError(404, f"there is no model {body.model!r}; there are {known}", "model_not_found")
        loop = asyncio.get_running_loop()
        job = await loop.run_in_executor(self._worker, self._job, body)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
        write, steps = partial(written, head), self._steps(job, self._served[body.model])
        if body.stream:
            events = _events(write, steps, len(job.prompt) if body.stream_options.include_usage else None)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        gone = asyncio.ensure_future(request.receive())
        gone.add_done_callback(lambda _: job.inbox.put(ApiError(499, "the client has left")))
        try:
            drawn = [piece async for step in steps for piece in step]
        finally:
            gone.cancel()
        counts = usage(len(job.prompt), sum(piece.num_tokens for piece in drawn))
        return JSONResponse(write(drawn, counts, whole=True))

    def _job(self, body: ChatRequest) -> Job:
        """What a request asks for. Raises ApiError."""
        messages = [{"role": message.role, "content": message.content} for message in body.messages]
        try:
            prompt = self._loaded.encode_messages(messages, False)
        except PipelineError as error:
            raise ApiError(400, f"messages: {error}") from None
        room = UNLIMITED if self._context is None else self._context - len(prompt)
        limit = body.max_completion_tokens or body.max_tokens or max(min(room, self._longest), 1)
        if self._context is not None and limit > room:
            what = f"the model takes {self._context} tokens; the request has {len(prompt)} and its answer up to {limit}"
            raise ApiError(400, what, "context_length_exceeded")
        seed = (secrets.randbits(63) if body.seed is None else body.seed) % 2**64
        seeds = [seed, *(stream_seed(seed, "choice", 0, index) for index in range(1, body.n))]
        return Job(prompt, seeds, limit, body.temperature, body.top_p, body.stop, body.stream)

    async def _steps(self, job: Job, adapted: bool) -> AsyncIterator[list[Piece]]:
        """What is drawn of a job, until there is no more, or nobody who wants it."""
        loop, shared, left = asyncio.get_running_loop(), self._shared[adapted], len(job.seeds)
        self._worker.submit(self._add, job, shared, loop)
        try:
            while left:
                step = await job.inbox.take()
                left -= sum(piece.finish_reason is not None for piece in step)
                yield step
        finally:
            self._worker.submit(shared.drop, job)

    def _add(self, job: Job, shared: SharedSteps, loop: asyncio.AbstractEventLoop) -> None:
        shared.add(job)
        if not self._stepping:
            self._worker.submit(self._step, loop)
        self._stepping = True

    def _step(self, loop: asyncio.AbstractEventLoop) -> None:
        """A step with the adapter and one without, where samples need them; the next is behind what has been asked."""
        for adapted, shared in self._shared.items():
            if shared.under_way:
                loop.call_soon_threadsafe(_hand_out, self._taken(shared, adapted))
        self._stepping = any(shared.under_way for shared in self._shared.values())
        if self._stepping:
            self._worker.submit(self._step, loop)

    def _taken(self, shared: SharedSteps, adapted: bool) -> dict[Job, list[Piece] | Exception]:
        """What a step has for each job: an error of the model ends all that share the step."""
        without = getattr(self._loaded.model, "disable_adapter", contextlib.nullcontext)
        try:
            with contextlib.nullcontext() if adapted else without():
                return shared.step()
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            return dict.fromkeys(shared.clear(), _as_api_error(error))


def _hand_out(news: Mapping[Job, list[Piece] | Exception]) -> None:
    for job, own in news.items():
        job.inbox.put(own)


async def _events(
    write: Callable[..., dict[str, Any]], steps: AsyncIterator[list[Piece]], prompt_tokens: int | None
) -> AsyncIterator[str]:
    """Server-sent events; with ``prompt_tokens``, what was used is told at the end."""
    completion_tokens = 0

    def event(value: Mapping[str, Any]) -> str:
        return f"data: {json.dumps(value)}\n\n"

    try:
        async with contextlib.aclosing(steps):
            async for step in steps:
                for piece in step:
                    completion_tokens += piece.num_tokens
                    yield event(write([piece], None, whole=False))
        if prompt_tokens is not None:
            yield event(write([], usage(prompt_tokens, completion_tokens), whole=False))
    except ApiError as error:
        # The status has been sent; what is left is to say so where the client reads.
        yield event(error.body)
    yield "data: [DONE]\n\n"


def _as_api_error(error: Exception) -> ApiError:
    return error if isinstance(error, ApiError) else ApiError(500, "the server has failed; its log says why")


async def _body(request: Request) -> bytes:
    """The body of a request. Raises ApiError as soon as it is longer than any request that fits a model."""
    too_long = ApiError(413, f"the body of the request has more than {MOST_BYTES:,} bytes")
    declared, body = request.headers.get("content-length", ""), b""
    if declared.isdecimal() and int(declared) > MOST_BYTES:
        raise too_long
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise too_long
    return body


async def _no_such_path(request: Request, error: HTTPException) -> Response:
    asked = f"{request.method} {request.url.path}"
    there = "POST /v1/chat/completions and GET /v1/models are served"
    return await _refusal(request, ApiError(error.status_code, f"{asked} is not served; {there}"))


async def _refusal(request: Request, error: Exception) -> Response:
    refused = _as_api_error(error)
    return JSONResponse(refused.body, refused.status)
