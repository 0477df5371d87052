"""OpenAI's protocol from the server's side: what a request may say, and how replies, pieces and errors are written."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt, Probability
from pipeline.config.params import validate
from pipeline.errors import ConfigError
from pipeline.inference.token_stream import Piece

Text = Annotated[str, Field(min_length=1)]
Tokens = Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1)]


class ApiError(Exception):
    """A request that is refused, with an HTTP status and OpenAI's code, where there is one."""

    def __init__(self, status: int, message: str, code: str | None = None):
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def body(self) -> dict[str, Any]:
        """In OpenAI's error format."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": None, "code": self.code}}


@dataclass(frozen=True, config=STRICT)
class StreamOptions:
    """How pieces are sent."""

    include_usage: StrictBool = False


@dataclass(frozen=True, config=STRICT)
class Message:
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GenerationRequest:
    """What both endpoints take. What is not known is refused rather than ignored."""

    model: str
    n: PositiveInt = 1
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] = 1.0
    top_p: Probability = 1.0
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[list[Text], Field(max_length=4)] = ()
    """Strings that end a sample."""
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: PositiveInt | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ChatRequest(GenerationRequest):
    """A request to /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: PositiveInt | None = None

    @property
    def limit(self) -> int | None:
        """Longest answer in tokens; None for what the model's context leaves."""
        return self.max_completion_tokens or self.max_tokens


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CompletionRequest(GenerationRequest):
    """A request to /v1/completions."""

    prompt: Annotated[list[Text | Tokens], Field(min_length=1)]

    @property
    def limit(self) -> int:
        """Longest answer in tokens; 16 unasked, as OpenAI has it."""
        return self.max_tokens or 16


def parse_request(body: Any, chat: bool) -> ChatRequest | CompletionRequest:
    """Validate the body of a request, where null asks for the default. Raises ApiError naming the parameter."""
    if not isinstance(body, dict):
        raise ApiError(400, "the body of the request is not a JSON object")
    given = {key: value for key, value in body.items() if value is not None}
    for key in given.keys() & {"stop", "prompt"}:
        # One of them alone, which for a prompt may be its token ids.
        token_ids = isinstance(given[key], list) and all(isinstance(item, int) for item in given[key])
        given[key] = [given[key]] if token_ids or isinstance(given[key], str) else given[key]
    try:
        return validate(given, ChatRequest if chat else CompletionRequest, "the request")
    except ConfigError as error:
        raise ApiError(400, str(error)) from None


class Writer:
    """Replies and pieces of one request, in the format of its endpoint."""

    def __init__(self, chat: bool, identity: str, created: int, model: str):
        self._chat = chat
        self._head = {"id": f"{'chatcmpl' if chat else 'cmpl'}-{identity}", "created": created, "model": model}

    def _choice(self, piece: Piece, key: str) -> dict[str, Any]:
        text = {key: {"role": "assistant", "content": piece.text}} if self._chat else {"text": piece.text}
        return {"index": piece.index, **text, "logprobs": None, "finish_reason": piece.finish_reason}

    def reply(self, pieces: Sequence[Piece], prompt_tokens: int) -> dict[str, Any]:
        """The whole reply, from the one piece of every sample."""
        choices = [self._choice(piece, "message") for piece in sorted(pieces, key=lambda piece: piece.index)]
        counts = usage(prompt_tokens, sum(piece.num_tokens for piece in pieces))
        kind = "chat.completion" if self._chat else "text_completion"
        return self._head | {"object": kind, "choices": choices, "usage": counts}

    def chunk(self, piece: Piece | None, counts: dict[str, int] | None = None) -> dict[str, Any]:
        """A piece of one sample, or what was used, behind all pieces."""
        choices = [] if piece is None else [self._choice(piece, "delta")]
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return self._head | {"object": kind, "choices": choices, "usage": counts}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Tokens of a request and its answers, the stop tokens included."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}
