"""Any server that speaks OpenAI's protocol over HTTP, e.g. ``vllm serve`` or SGLang.

Requests run side by side, at most ``max_concurrency`` at a time. The client repeats what may pass
(no connection, time-out, 408, 409, 429, 5xx), waiting as Retry-After says or twice as long each
time. What fails for good ends the run, after the requests under way have been handed over. Ctrl-C
and SIGTERM end it at once, after what is finished has been handed over.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import openai
from transformers import PreTrainedTokenizerBase

from pipeline.config.engine import OpenaiConfig
from pipeline.config.models import ModelConfig
from pipeline.engines.sampling.completion_protocol import CompletionProtocol
from pipeline.engines.sampling.text_engine import EngineError, Sample, SampleRequest, first_seed, seed_groups
from pipeline.errors import ConfigError, ModelError, first_line

Item, Result = TypeVar("Item"), TypeVar("Result")

COMPARED_TOKENS = 5
"""Most probable next tokens that are compared with and without an adapter; servers offer at least so many."""
COMPARED_SAMPLES = 8
"""Answers that are compared instead where a server offers no log-probabilities."""
LONGEST_REASON = 500
"""Characters that are shown of a server's reason for refusing."""


class OpenaiEngine:
    """Samples from one model of a server."""

    def __init__(self, settings: OpenaiConfig, served_model: str, protocol: CompletionProtocol) -> None:
        """``served_model`` is the model's name on the server. Raises ConfigError where the API key is not set."""
        self._settings, self._served_model, self._protocol = settings, served_model, protocol
        # The client insists on a key; a server that wants none ignores it.
        self._api_key = "none"
        if settings.api_key_variable is not None:
            self._api_key = os.environ.get(settings.api_key_variable, "")
            if not self._api_key:
                raise ConfigError(
                    f"engine.openai.api_key_variable: the environment variable {settings.api_key_variable} is not set"
                )

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[list[Sample]]:
        """See TextEngine. The requests under way when one fails for good are handed over before the error."""
        for request in requests:
            if request.constraint is not None:
                raise EngineError("engine.kind openai: cannot decode under a constraint; use transformers")
        size = self._settings.samples_per_request
        pairs = [(request, group) for request in requests for group in seed_groups(request.seeds, size)]
        yield from self._run(self._samples, pairs)

    def first_token_log_probabilities(self, request: SampleRequest, top: int) -> dict[int, float] | None:
        """See TextEngine; None also where the server names tokens by their texts."""
        named = self.named_log_probabilities(request, top)
        return None if named is None else self._protocol.by_token_id(named)

    def named_log_probabilities(self, request: SampleRequest, top: int) -> dict[str, float] | None:
        """First-token log-probabilities under the server's names of tokens; None where it offers none."""
        body = self._protocol.log_probability_body(self._served_model, request, top)

        async def ask(client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, float] | None:
            try:
                reply = await self._post(client, body)
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                return None
            return self._protocol.first_log_probabilities(reply, top)

        (named,) = self._run(ask, [body])
        return named

    def served_models(self) -> list[str] | None:
        """Names of the models that the server has; None where it does not list them."""

        async def names(client: openai.AsyncOpenAI, path: str) -> list[str] | None:
            try:
                reply = await client.get(path, cast_to=object)
            except openai.AuthenticationError:
                raise
            except openai.APIStatusError as error:
                # It may answer all the same: some have no list, or none for every key.
                if not isinstance(error, openai.NotFoundError):
                    print(f"note: {self._settings.base_url} does not list its models ({server_reason(error)})")
                return None
            listed = reply.get("data") if isinstance(reply, dict) else None
            return [entry["id"] for entry in listed] if listed else None

        (found,) = self._run(names, ["/models"])
        return found

    async def _samples(self, client: openai.AsyncOpenAI, pair: tuple[SampleRequest, Mapping[int, int]]) -> list[Sample]:
        """The samples of one group; what a server with a lower limit on n leaves out is asked for again."""
        request, group = pair
        samples, left = [], dict(group)
        while left:
            body = self._protocol.body(self._served_model, request, len(left), first_seed(left))
            answers = self._protocol.generations(await self._post(client, body), request, left)
            if not answers:
                raise EngineError(f"{self._settings.base_url} returned no answer to {request.key}")
            samples += [Sample(request.key, index, answer) for index, answer in answers.items()]
            left = {index: seed for index, seed in left.items() if index not in answers}
        return samples

    async def _post(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
        reply = await client.post(self._protocol.path, body=dict(body), cast_to=object)
        if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list):
            raise EngineError(f"{self._settings.base_url}: a reply has no choices: {str(reply)[:200]!r}")
        return reply

    def _run(
        self, work: Callable[[openai.AsyncOpenAI, Item], Awaitable[Result]], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Results of ``work(client, item)`` as they are finished. Raises EngineError behind the last of them."""
        queue, waiting, failure = iter(items), set(), None
        with asyncio.Runner() as runner:
            client = openai.AsyncOpenAI(
                base_url=self._settings.base_url,
                api_key=self._api_key,
                timeout=self._settings.timeout_seconds,
                max_retries=self._settings.max_retries,
            )
            create_task = runner.get_loop().create_task
            try:
                while True:
                    # Nothing new is started behind a failure.
                    free = 0 if failure else self._settings.max_concurrency - len(waiting)
                    waiting.update(create_task(work(client, item)) for _, item in zip(range(free), queue, strict=False))
                    if not waiting:
                        break
                    done, waiting, signals = _first_finished(runner, waiting)
                    for task in done:
                        if task.exception() is None:
                            yield task.result()
                        else:
                            failure = failure or task.exception()
                    for number in signals:
                        signal.raise_signal(number)
            finally:
                with _signals_held(lambda: None) as late:
                    runner.run(_close(client, waiting))
                for number in late:
                    signal.raise_signal(number)
        if failure is not None:
            error = explained(failure, self._settings)
            # Never from itself: whoever follows the causes would not come to an end.
            raise error from (failure.__cause__ if error is failure else failure)


def _first_finished(
    runner: asyncio.Runner, tasks: set[asyncio.Task]
) -> tuple[set[asyncio.Task], set[asyncio.Task], list[int]]:
    """Tasks that are done, those that are not, and signals that came; returns as soon as there is one of either."""
    loop = runner.get_loop()
    signalled = loop.create_future()

    def interrupt() -> None:
        if not signalled.done():
            signalled.set_result(None)

    async def wait() -> None:
        await asyncio.wait({*tasks, signalled}, return_when=asyncio.FIRST_COMPLETED)

    with _signals_held(lambda: loop.call_soon_threadsafe(interrupt)) as signals:
        runner.run(wait())
    return {task for task in tasks if task.done()}, {task for task in tasks if not task.done()}, signals


@contextlib.contextmanager
def _signals_held(on_signal: Callable[[], object]) -> Iterator[list[int]]:
    """The numbers of signals to end that come in the meantime, for the caller to raise again.

    An exception that a handler raises inside asyncio may become a task's, or be logged and forgotten.
    """
    came: list[int] = []

    def hold(number: int, frame: object) -> None:
        came.append(number)
        on_signal()

    held = {}
    # Only the main thread may change handlers, and only it is interrupted by them.
    if threading.current_thread() is threading.main_thread():
        held = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # What is ignored stays so, and so does what was not set from Python and could not be put back.
    held = {number: handler for number, handler in held.items() if handler not in (signal.SIG_IGN, None)}
    for number in held:
        signal.signal(number, hold)
    try:
        yield came
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)


async def _close(client: openai.AsyncOpenAI, tasks: set[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()


def server_reason(error: openai.APIStatusError) -> str:
    """Status and reason of a refused request, on one line.

    The reason is OpenAI's ``error.message``, FastAPI's ``detail`` (a text, or a list of what is wrong with which
    field), or else the whole body.
    """
    # The client has taken it out of ``error`` already.
    body = error.body
    if isinstance(body, Mapping):
        body = body.get("message") or body.get("detail") or body
    if isinstance(body, list) and all(isinstance(item, Mapping) and {"loc", "msg"} <= item.keys() for item in body):
        body = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in body)
    reason = " ".join(str(body or "").split())[:LONGEST_REASON]
    return f"Error code: {error.status_code}" + (f" - {reason}" if reason else "")


def explained(error: BaseException, settings: OpenaiConfig) -> BaseException:
    """An error of the client as one sentence that says what to change; any other error as it is."""
    server, attempts = settings.base_url, f"{settings.max_retries + 1} attempts"
    match error:
        case openai.APITimeoutError():
            message = f"no reply within {settings.timeout_seconds:g} seconds, in {attempts}"
        case openai.APIConnectionError():
            message = f"cannot be reached, in {attempts} ({first_line(error.__cause__ or error)})"
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            key = settings.api_key_variable
            held = f"the key in {key}" if key else "requests without a key; name one in engine.openai.api_key_variable"
            message = f"refuses {held} ({server_reason(error)})"
        case openai.NotFoundError():
            message = f"has no such model or endpoint ({server_reason(error)})"
        case openai.BadRequestError() | openai.UnprocessableEntityError():
            message = (
                f"refuses the request ({server_reason(error)}); engine.openai: endpoint completions needs prompts of "
                "token ids (of texts under the dialect llama_cpp), samples_per_request above 1 needs n, and dialect "
                "says which fields are sent"
            )
        case openai.APIStatusError():
            message = f"failed with status {error.status_code}, in {attempts} ({server_reason(error)})"
        case openai.OpenAIError():
            message = first_line(error)
        case _:
            return error
    return EngineError(f"server {server}: {message}")


def open_openai(
    config: ModelConfig,
    settings: OpenaiConfig,
    model: str,
    condition: str,
    tokenizer: PreTrainedTokenizerBase,
    stop_ids: set[int],
    probe: SampleRequest,
    reasons: bool,
) -> OpenaiEngine:
    """Open a condition's model on a server, and verify that it is not the base model.

    Args:
        config: The checkpoint that the server is to serve.
        settings: Of the engine.
        model: Replaces ``{model}`` in ``base_url`` and ``served_models``.
        condition: A key of ``served_models``.
        tokenizer: Of the checkpoint; encodes stop tokens and decodes replies with token ids.
        stop_ids: Tokens that end a generation.
        probe: A request on which an adapter must show.
        reasons: Whether the model is to reason before it answers, which its chat template is told.

    Raises:
        ConfigError: ``served_models`` or the endpoint does not fit the condition or the model.
        EngineError: The server cannot be reached or used.
        ModelError: It has no such model, or serves the base model under the adapter's name.
    """
    settings = replace(settings, base_url=settings.base_url.replace("{model}", model))
    names = {key: name.replace("{model}", model) for key, name in settings.served_models.items()}
    needed = dict.fromkeys(("base", condition))
    for key in needed:
        if key not in names:
            raise ConfigError(f"engine.openai.served_models: the condition {key} is missing; it has {', '.join(names)}")
    if condition != "base" and names[condition] == names["base"]:
        raise ConfigError(f"engine.openai.served_models: {condition} and base are both {names['base']!r}")
    chat = config.chat
    if settings.endpoint == "chat" and chat.answer_prefix and not reasons:
        raise ConfigError(
            f"engine.openai.endpoint: chat cannot open the answer of {model} with {chat.answer_prefix!r}; "
            "use completions"
        )
    arguments = chat.reasoning.template_arguments if reasons else chat.template_arguments
    protocol = CompletionProtocol(settings, tokenizer, stop_ids, arguments)
    engines = {key: OpenaiEngine(settings, names[key], protocol) for key in needed}
    found = engines[condition].served_models()
    for key in needed:
        if found is not None and names[key] not in found:
            raise ModelError(f"server {settings.base_url} has no model {names[key]!r} ({key}); it has {found}")
    if condition != "base":
        _verify_adapter(engines["base"], engines[condition], probe, names[condition])
    return engines[condition]


def _verify_adapter(base: OpenaiEngine, adapted: OpenaiEngine, probe: SampleRequest, name: str) -> None:
    """Raise ModelError where the adapted model's log-probabilities are the base model's; compare answers without."""
    # The first request fills the server's prefix cache. A base model under another name finds the prompt there, and
    # reading it changes the last bits: compared with an answer that was not cached, it would look like an adapter.
    base.named_log_probabilities(probe, COMPARED_TOKENS)
    before, after = (engine.named_log_probabilities(probe, COMPARED_TOKENS) for engine in (base, adapted))
    if before is None or after is None:
        seeds = {index: index for index in range(COMPARED_SAMPLES)}
        request = replace(probe, seeds=seeds)
        texts = [
            {sample.sample_index: sample.generation.text for group in engine.sample([request]) for sample in group}
            for engine in (base, adapted)
        ]
        differ = sum(texts[0][index] != texts[1][index] for index in seeds)
        print(
            f"note: the server offers no log-probabilities to verify {name!r} by; "
            f"{differ} of {len(seeds)} answers differ from the base model's at the same seeds"
        )
    elif before == after:
        raise ModelError(f"the server's model {name!r} has the base model's log-probabilities: no adapter is in effect")
