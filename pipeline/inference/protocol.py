"""OpenAI's protocol from the server's side: what a request may say, and how replies, pieces and errors are written."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt, Probability
from pipeline.config.params import validate
from pipeline.errors import ConfigError
from pipeline.inference.token_stream import MOST_SAMPLES, Piece


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
    include_usage: StrictBool = False


@dataclass(frozen=True, config=STRICT)
class Message:
    role: Literal["system", "developer", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ChatRequest:
    """A request to /v1/chat/completions. What is not known is refused rather than ignored."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    n: Annotated[PositiveInt, Field(le=MOST_SAMPLES)] = 1
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] = 1.0
    top_p: Probability = 1.0
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=4)] = ()  # strings that end a sample
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None


def parse_request(body: Any) -> ChatRequest:
    """Validate the body of a request, where null asks for the default. Raises ApiError naming the parameter."""
    if not isinstance(body, dict):
        raise ApiError(400, "the body of the request is not a JSON object")
    given = {key: value for key, value in body.items() if value is not None}
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    try:
        return validate(given, ChatRequest, "the request")
    except ConfigError as error:
        raise ApiError(400, str(error)) from None


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Tokens of a request and its answers, the stop tokens included."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def written(
    head: dict[str, Any], pieces: Sequence[Piece], counts: dict[str, int] | None, *, whole: bool
) -> dict[str, Any]:
    """A whole reply, from the one piece of every sample, or a chunk of a stream; ``head`` has what all chunks share."""
    choices = []
    for piece in sorted(pieces, key=lambda piece: piece.index):
        said = {"message" if whole else "delta": {"role": "assistant", "content": piece.text}}
        choices.append({"index": piece.index, **said, "logprobs": None, "finish_reason": piece.finish_reason})
    kind = "chat.completion" if whole else "chat.completion.chunk"
    return head | {"object": kind, "choices": choices, "usage": counts}
