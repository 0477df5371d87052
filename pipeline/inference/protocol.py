"""OpenAI's protocol from the server's side: what a request may say, and how replies, pieces and errors are written."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from pipeline.inference.token_stream import Piece, TokenScore

MOST_TOKENS = 2**22
"""Samples of a request times their longest length at most: there is memory for each token before it is drawn."""
MOST_TOP = 20
NEUTRAL = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logit_bias": {},
    "echo": False,
    "suffix": "",
    "tools": [],
    "response_format": {"type": "text"},
    "store": False,
}
"""Parameters of OpenAI's that are not supported, with the value that asks for nothing."""
REASONS = {
    "extra_forbidden": ("is not supported here", "unsupported_parameter"),
    "missing": ("is missing", "missing_required_parameter"),
}
"""Our words and OpenAI's code, by pydantic's type of error."""


def _encodable(text: str) -> str:
    """The text, which JSON allows to hold half a character. Raises UnicodeError, which is a ValueError."""
    text.encode()
    return text


Content = Annotated[str, AfterValidator(_encodable)]
Text = Annotated[Content, StringConstraints(min_length=1)]
Stops = Annotated[list[Text], Field(max_length=4)]
Tokens = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class ApiError(Exception):
    """A request that is refused: with an HTTP status, its parameter and OpenAI's code, where there is one."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    @property
    def body(self) -> dict[str, Any]:
        """In OpenAI's error format."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Body(BaseModel, extra="forbid", strict=True):
    """What is not known is refused rather than ignored."""


class StreamOptions(_Body):
    """How pieces are sent."""

    include_usage: bool = False


class _Request(_Body):
    """What both endpoints take. ``user``, ``metadata`` and ``safety_identifier`` say who asks, and change nothing."""

    model: str
    n: Annotated[int, Field(ge=1)] = 1
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Text | Stops = []
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None

    @property
    def stops(self) -> list[str]:
        """Strings that end a sample."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class _TextPart(_Body):
    type: Literal["text"]
    text: Content


class _Message(_Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Content | list[_TextPart]

    @property
    def plain(self) -> dict[str, str]:
        """As chat templates take it."""
        parts = self.content if isinstance(self.content, list) else None
        return {"role": self.role, "content": self.content if parts is None else "".join(part.text for part in parts)}


class ChatRequest(_Request):
    """A request to /v1/chat/completions."""

    messages: Annotated[list[_Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_TOP)] | None = None

    @property
    def limit(self) -> int | None:
        """Longest answer in tokens; None for what the model's context leaves."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        """Most probable tokens to tell; None for no log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(_Request):
    """A request to /v1/completions."""

    prompt: Text | Tokens | Annotated[list[Text], Field(min_length=1)] | Annotated[list[Tokens], Field(min_length=1)]
    logprobs: Annotated[int, Field(ge=0, le=MOST_TOP)] | None = None

    @property
    def limit(self) -> int:
        """Longest answer in tokens; 16 unasked, as OpenAI has it."""
        return self.max_tokens or 16

    @property
    def top(self) -> int | None:
        """Most probable tokens to tell; None for no log-probabilities."""
        return self.logprobs

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """One or more texts, or token ids."""
        single = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return [self.prompt] if single else self.prompt


def _without_nulls(value: Any) -> Any:
    """null asks for the default, in OpenAI's protocol and in its client."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def parse_request(body: Any, chat: bool) -> ChatRequest | CompletionRequest:
    """Validate the JSON body of a request. Raises ApiError naming the parameter."""
    if not isinstance(body, dict):
        raise ApiError(400, "the body of the request is not a JSON object")
    body = _without_nulls(body)
    for name, neutral in NEUTRAL.items():
        if name in body and body.pop(name) != neutral:
            raise ApiError(400, f"{name} is not supported here, but for {neutral!r}", name, "unsupported_parameter")
    try:
        request = (ChatRequest if chat else CompletionRequest).model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        reason, code = REASONS.get(first["type"], (f"is not allowed: {first['msg']}", None))
        raise ApiError(400, f"{'.'.join(map(str, first['loc']))} {reason}", str(first["loc"][0]), code) from None
    if request.stream_options is not None and not request.stream:
        raise ApiError(400, "stream_options needs stream", "stream_options")
    if chat and request.max_tokens is not None and request.max_completion_tokens is not None:
        raise ApiError(400, "max_tokens and max_completion_tokens exclude each other", "max_tokens")
    if chat and request.top_logprobs is not None and not request.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs", "top_logprobs")
    return request


class Writer:
    """Replies and pieces of one request, in the format of its endpoint."""

    def __init__(self, chat: bool, identity: str, created: int, model: str, told: bool, usage: bool):
        """``told``: whether log-probabilities are asked for. ``usage``: whether pieces are to be counted at the end."""
        self._chat, self._told, self._usage = chat, told, usage
        self._head = {"id": f"{'chatcmpl' if chat else 'cmpl'}-{identity}", "created": created, "model": model}
        self._begun: dict[int, int] = {}

    def _logprobs(self, scores: Sequence[TokenScore], offset: int) -> dict[str, Any] | None:
        if not self._told:
            return None
        if self._chat:
            content = [
                _entry(score.text, score.logprob) | {"top_logprobs": [_entry(*item) for item in score.top]}
                for score in scores
            ]
            return {"content": content, "refusal": None}
        starts = [offset + sum(len(score.text) for score in scores[:place]) for place in range(len(scores))]
        return {
            "tokens": [score.text for score in scores],
            "token_logprobs": [score.logprob for score in scores],
            "top_logprobs": [_ranked(score) for score in scores],
            "text_offset": starts,
        }

    def reply(self, pieces: Sequence[Piece], prompt_tokens: int) -> dict[str, Any]:
        """The whole reply, from the one piece of every sample."""
        choices = []
        for piece in sorted(pieces, key=lambda piece: piece.index):
            message = {"role": "assistant", "content": piece.text, "refusal": None}
            choice = {"message": message} if self._chat else {"text": piece.text}
            logprobs = self._logprobs(piece.scores, 0)
            choices.append({"index": piece.index, **choice, "logprobs": logprobs, "finish_reason": piece.finish_reason})
        kind = "chat.completion" if self._chat else "text_completion"
        counts = usage(prompt_tokens, sum(piece.num_tokens for piece in pieces))
        return self._head | {"object": kind, "choices": choices, "usage": counts}

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """A piece of one sample."""
        delta = {"content": piece.text} if self._chat else {"text": piece.text}
        if self._chat:
            first = {} if piece.index in self._begun else {"role": "assistant"}
            delta = {"delta": first | delta}
        offset = self._begun.get(piece.index, 0)
        self._begun[piece.index] = offset + sum(len(score.text) for score in piece.scores)
        logprobs = self._logprobs(piece.scores, offset)
        choice = {"index": piece.index, **delta, "logprobs": logprobs, "finish_reason": piece.finish_reason}
        return self._chunk([choice], None)

    def last_chunk(self, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
        """What was used, behind all pieces."""
        return self._chunk([], usage(prompt_tokens, completion_tokens))

    def _chunk(self, choices: list[dict[str, Any]], counts: Mapping[str, int] | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return self._head | {"object": kind, "choices": choices} | ({"usage": counts} if self._usage else {})


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Tokens of a request and its answers, the stop tokens included."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def _entry(text: str, logprob: float) -> dict[str, Any]:
    # A token that is part of a character has no text of its own, and its bytes are not known here.
    return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


def _ranked(score: TokenScore) -> dict[str, float]:
    """The drawn token and the most probable ones; of tokens with one text, the most probable."""
    ranked: dict[str, float] = {}
    for text, value in sorted([*score.top, (score.text, score.logprob)], key=lambda pair: -pair[1]):
        ranked.setdefault(text, value)
    return ranked
