"""An HTTP server in OpenAI's protocol over one opened model; one thread takes the steps of requests in turns."""

import asyncio
import contextlib
import json
import secrets
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.core.random_streams import stream_seed
from pipeline.engines.loading.conditioned_model import ConditionedModel
from pipeline.errors import PipelineError
from pipeline.inference.opening import context_length
from pipeline.inference.protocol import ApiError, ChatRequest, parse_request, usage, written
from pipeline.inference.token_stream import Job, Piece, pieces

MOST_TOKENS = 2**22
"""Samples of a request times their longest length at most: there is memory for each token before it is drawn."""
MOST_AT_ONCE = 16  # requests under way at a time, each with keys and values of its own in memory; further ones wait
UNLIMITED = 4096  # tokens of an answer at most where neither the request nor the checkpoint has a limit
Result = TypeVar("Result")


class ModelServer:
    """The endpoints of one model; ``served`` says under which names, and whether with the adapter."""

    def __init__(self, loaded: ConditionedModel, served: Mapping[str, bool], batch_size: int):
        self._loaded, self._served, self._batch_size = loaded, served, batch_size
        self._context, self._created = context_length(loaded), int(time.time())
        self._worker, self._turns = ThreadPoolExecutor(1, "model"), asyncio.Semaphore(MOST_AT_ONCE)

    def application(self) -> Starlette:
        return Starlette(
            routes=[Route("/v1/models", self._models), Route("/v1/chat/completions", self._answer, methods=["POST"])],
            exception_handlers={ApiError: _refusal, Exception: _refusal},
        )

    async def _models(self, request: Request) -> Response:
        shared = {"object": "model", "created": self._created, "owned_by": "pipeline"}
        return JSONResponse({"object": "list", "data": [{"id": name, **shared} for name in self._served]})

    async def _answer(self, request: Request) -> Response:
        try:
            content = json.loads(await request.body())
            # JSON allows half a character, which no tokenizer takes.
            json.dumps(content, ensure_ascii=False).encode()
        except ValueError as error:
            raise ApiError(400, f"the body of the request is not JSON ({error})") from None
        body = parse_request(content)
        if body.model not in self._served:
            known = ", ".join(self._served)
            raise ApiError(404, f"there is no model {body.model!r}; there are {known}", "model_not_found")
        job = await self._run(lambda: self._job(body))
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
        write, steps = partial(written, head), self._steps(request, job, self._served[body.model])
        if body.stream:
            events = _events(write, steps, len(job.prompt) if body.stream_options.include_usage else None)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        drawn = [piece async for step in steps for piece in step]
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
        limit = body.max_completion_tokens or body.max_tokens or max(room, 1)
        if self._context is not None and limit > room:
            what = f"the model takes {self._context} tokens; the request has {len(prompt)} and its answer up to {limit}"
            raise ApiError(400, what, "context_length_exceeded")
        if (most := MOST_TOKENS // limit) < body.n:
            what = f"at most {most} answers of up to {limit} tokens can be asked for at once"
            raise ApiError(400, f"n: {what}; fewer tokens allow more answers")
        seed = (secrets.randbits(63) if body.seed is None else body.seed) % 2**64
        seeds = [seed, *(stream_seed(seed, "choice", 0, index) for index in range(1, body.n))]
        return Job(prompt, seeds, limit, body.temperature, body.top_p, body.stop, body.stream)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _steps(self, request: Request, job: Job, adapted: bool) -> AsyncIterator[list[Piece]]:
        """The steps of a job, for as long as its client is there."""
        async with self._turns:
            steps = pieces(self._loaded, job, self._batch_size)
            try:
                while not await request.is_disconnected():
                    if (step := await self._run(lambda: self._step(steps, adapted))) is None:
                        return
                    yield step
            finally:
                # In the thread that runs it, behind a step that may be under way.
                self._worker.submit(steps.close)

    def _step(self, steps: Iterator[list[Piece]], adapted: bool) -> list[Piece] | None:
        without = getattr(self._loaded.model, "disable_adapter", contextlib.nullcontext)
        with contextlib.nullcontext() if adapted else without():
            return next(steps, None)


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
    except Exception as error:
        # The status has been sent; what is left is to say so where the client reads.
        traceback.print_exception(error, file=sys.stderr)
        yield event(_as_api_error(error).body)
    yield "data: [DONE]\n\n"


def _as_api_error(error: Exception) -> ApiError:
    return error if isinstance(error, ApiError) else ApiError(500, "the server has failed; its log says why")


async def _refusal(request: Request, error: Exception) -> Response:
    refused = _as_api_error(error)
    return JSONResponse(refused.body, refused.status)
