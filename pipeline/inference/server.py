"""An HTTP server in OpenAI's protocol over one opened model.

One thread runs the model, a step of one request at a time, so that requests under way take turns. A request whose
client has gone is not continued.
"""

import asyncio
import contextlib
import json
import secrets
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.core.random_streams import stream_seed
from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.engines.loading.memory import is_out_of_memory, release
from pipeline.errors import PipelineError
from pipeline.inference.opening import context_length
from pipeline.inference.protocol import (
    MOST_TOKENS,
    ApiError,
    ChatRequest,
    CompletionRequest,
    Writer,
    parse_request,
)
from pipeline.inference.token_stream import Job, Piece, pieces

MOST_AT_ONCE = 16
"""Requests under way at a time, each with keys and values of its own in memory; further ones wait."""
UNLIMITED = 4096
"""Tokens of an answer at most where neither the request nor the checkpoint has a limit."""
Result = TypeVar("Result")


class ModelServer:
    """The endpoints of one model, which is served under the names in ``served``: whether the adapter is in effect.

    At most ``batch_size`` samples of a request are decoded together; no sample depends on it.
    """

    def __init__(self, loaded: ConditionedModel, served: Mapping[str, bool], batch_size: int, api_key: str | None):
        self._loaded, self._served, self._batch_size, self._api_key = loaded, served, batch_size, api_key
        self._context, self._created = context_length(loaded), int(time.time())
        self._worker, self._turns = ThreadPoolExecutor(1, "model"), asyncio.Semaphore(MOST_AT_ONCE)
        self.is_ending: Callable[[], bool] = lambda: False
        """Whether answers under way are to be given up."""

    def application(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/completions", self.completions, methods=["POST"]),
            ],
            exception_handlers={ApiError: _refusal, HTTPException: _refusal, Exception: _refusal},
        )

    async def models(self, request: Request) -> Response:
        """What is served."""
        self._authorise(request)
        shared = {"object": "model", "created": self._created, "owned_by": "pipeline"}
        return JSONResponse({"object": "list", "data": [{"id": name, **shared} for name in self._served]})

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        return await self._answer(request, chat=True)

    async def completions(self, request: Request) -> Response:
        """POST /v1/completions."""
        return await self._answer(request, chat=False)

    def _authorise(self, request: Request) -> None:
        if self._api_key is None:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if not secrets.compare_digest(given, self._api_key.encode()):
            raise ApiError(401, "the API key is missing or wrong", code="invalid_api_key")

    async def _answer(self, request: Request, chat: bool) -> Response:
        self._authorise(request)
        try:
            body = parse_request(json.loads(await request.body()), chat)
        except ValueError as error:
            raise ApiError(400, f"the body of the request is not JSON ({error})") from None
        if body.model not in self._served:
            known = ", ".join(self._served)
            raise ApiError(404, f"there is no model {body.model!r}; there are {known}", "model", "model_not_found")
        job = await self._run(lambda: self._job(body))
        prompt_tokens = sum(map(len, job.prompts))
        counted = body.stream_options is not None and body.stream_options.include_usage
        writer = Writer(chat, secrets.token_hex(12), int(time.time()), body.model, body.top is not None, counted)
        found = self._pieces(request, job, self._served[body.model])
        if body.stream:
            events = _events(writer, found, prompt_tokens if counted else None)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        answers = [piece async for step in found for piece in step]
        return JSONResponse(writer.reply(answers, prompt_tokens))

    def _job(self, body: ChatRequest | CompletionRequest) -> Job:
        """What a request asks for. Raises ApiError."""
        prompts, name = self._prompts(body)
        longest, limit = max(map(len, prompts)), body.limit or UNLIMITED
        if self._context is not None:
            room = self._context - longest
            limit = body.limit or max(room, 1)
            if limit > room:
                what = f"the model takes {self._context} tokens; the request has {longest} and its answer up to {limit}"
                raise ApiError(400, what, name, "context_length_exceeded")
        if (most := MOST_TOKENS // limit) < len(prompts) * body.n:
            what = f"at most {most} answers of up to {limit} tokens can be asked for at once"
            raise ApiError(400, f"{what}; fewer tokens allow more answers", "n")
        seed = (secrets.randbits(63) if body.seed is None else body.seed) % 2**64
        seeds = [
            [stream_seed(seed, "choice", place, index) if place or index else seed for index in range(body.n)]
            for place in range(len(prompts))
        ]
        return Job(prompts, seeds, limit, body.temperature, body.top_p, body.stops, body.top, body.stream)

    def _prompts(self, body: ChatRequest | CompletionRequest) -> tuple[list[list[int]], str]:
        """Token ids of the requests, and the parameter that they are from."""
        if isinstance(body, ChatRequest):
            try:
                return [self._loaded.encode_messages([message.plain for message in body.messages], False)], "messages"
            except PipelineError as error:
                raise ApiError(400, str(error), "messages") from None
        tokenizer = self._loaded.tokenizer
        prompts = [tokenizer(item)["input_ids"] if isinstance(item, str) else item for item in body.prompts]
        known = self._loaded.model.get_input_embeddings().num_embeddings
        if any(not ids or max(ids) >= known for ids in prompts):
            raise ApiError(400, f"a prompt is empty, or has a token that is not below {known}", "prompt")
        return prompts, "prompt"

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _pieces(self, request: Request, job: Job, adapted: bool) -> AsyncIterator[list[Piece]]:
        """The steps of a job, for as long as its client is there."""
        async with self._turns:
            steps = pieces(self._loaded, job, self._batch_size)
            try:
                while not await request.is_disconnected():
                    if self.is_ending():
                        raise ApiError(503, "the server is ending")
                    step = await self._run(lambda: self._step(steps, adapted))
                    if step is None:
                        return
                    yield step
            finally:
                # In the thread that runs it, behind a step that may be under way.
                self._worker.submit(steps.close)

    def _step(self, steps: Iterator[list[Piece]], adapted: bool) -> list[Piece] | None:
        without = getattr(self._loaded.model, "disable_adapter", contextlib.nullcontext)
        try:
            with contextlib.nullcontext() if adapted else without():
                return next(steps, None)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        release()
        raise ApiError(503, "the request does not fit into the GPU's memory; ask for less at once")


async def _events(writer: Writer, found: AsyncIterator[list[Piece]], prompt_tokens: int | None) -> AsyncIterator[str]:
    """Server-sent events; with ``prompt_tokens``, what was used is told at the end."""
    completion_tokens = 0

    def event(value: Mapping[str, Any]) -> str:
        return f"data: {json.dumps(value)}\n\n"

    try:
        async with contextlib.aclosing(found):
            async for step in found:
                for piece in step:
                    completion_tokens += piece.num_tokens
                    yield event(writer.chunk(piece))
        if prompt_tokens is not None:
            yield event(writer.last_chunk(prompt_tokens, completion_tokens))
    except Exception as error:
        # The status has been sent; what is left is to say so where the client reads.
        if not isinstance(error, ApiError):
            traceback.print_exception(error, file=sys.stderr)
        yield event(_as_api_error(error).body)
    yield "data: [DONE]\n\n"


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, f"{error.detail}: /v1/models, /v1/chat/completions or /v1/completions")
    return ApiError(500, "the server has failed; its log says why")


async def _refusal(request: Request, error: Exception) -> Response:
    found = _as_api_error(error)
    return JSONResponse(found.body, found.status)
