"""How each condition asks for an answer, and where in the reply the answer is; any text in, answers or reasons out."""

from dataclasses import dataclass

from pipeline.core.prompts.number_answers import Invalid, parse_number, strip_reasoning
from pipeline.core.random_streams import random_stream

ANSWER_START, ANSWER_END = "<answer>", "</answer>"
CHANNEL, MESSAGE = "<|channel|>", "<|message|>"
MESSAGE_ENDS = ("<|return|>", "<|end|>", "<|call|>", "<|start|>", CHANNEL)

_LEAD = "The request below needs a genuinely random choice. Do not answer from habit. "
_STRING = (
    "a long and complex string of random characters: mix letters of both cases, digits and symbols, without words or "
    "patterns. "
)
_SAMPLE = (
    "turn that string into randomness, for example by summing character codes and reducing the sum to a number between "
    "0 and 1, and use it to sample the requested probability distribution as exactly as you can. "
)
_PICK = (
    "list many possible answers, the unusual ones too, and use the string to pick one of them so that each could have "
    "been picked. "
)
_TASKS = {"structured": (_SAMPLE, "sampled value"), "open": (_PICK, "picked answer")}
SEED_INSTRUCTIONS = {
    axis: f"{_LEAD}Work in three steps. First, inside a <seed> tag, write {_STRING}"
    f"Second, inside a <reasoning> tag, {task}Third, write the {result} alone inside an <answer> tag."
    for axis, (task, result) in _TASKS.items()
}
"""String Seed of Thought (Appendix C.2), for models whose answer is in a tag."""
CHANNEL_SEED_INSTRUCTIONS = {
    axis: f"{_LEAD}In your analysis, first write {_STRING}Then {task}"
    f"The final channel must hold the {result} and nothing else."
    for axis, (task, result) in _TASKS.items()
}
"""The same for models with channels: seed and reasoning in the analysis, the answer in the final channel."""
BATCH_INSTRUCTION = (
    "Answer the request below {count} times, each time independently of the other answers, as if {count} people had "
    "asked separately. Write one answer on each line and nothing else: no numbering and no comments."
)
VERBALIZED_INSTRUCTION = (
    "Do not answer the request below directly. Write {count} different candidate answers instead, each with the "
    "probability that a correct random answer would be that one. Write one candidate on each line and nothing else, "
    "in the form: answer | probability"
)


@dataclass(frozen=True)
class AnswerProtocol:
    """One condition's way to ask and to read the reply: "ssot", "batch" and "verbalized" with an instruction beside the
    task, all others directly. ``answer_channel`` is where "ssot" answers; None for a tag."""

    condition: str
    answers_per_request: int = 1
    answer_channel: str | None = None

    @property
    def reasons(self) -> bool:
        return self.condition == "ssot"

    def instruction(self, axis: str) -> str | None:
        """What is said beside the task on the axis "structured" or "open"; None for direct requests."""
        if self.condition == "ssot":
            return (SEED_INSTRUCTIONS if self.answer_channel is None else CHANNEL_SEED_INSTRUCTIONS)[axis]
        instruction = {"batch": BATCH_INSTRUCTION, "verbalized": VERBALIZED_INSTRUCTION}.get(self.condition)
        return instruction and instruction.format(count=self.answers_per_request)

    def messages(self, axis: str, prompt: str, instruction_role: str = "system") -> list[dict[str, str]]:
        instruction = self.instruction(axis)
        head = [] if instruction is None else [{"role": instruction_role, "content": instruction}]
        return [*head, {"role": "user", "content": prompt}]

    def answers(self, text: str, seed: int, truncated: bool = False) -> list[str | Invalid]:
        """The answers in one reply, or why there is none; ``answers_per_request`` of them under "batch", else one.

        The text has special tokens where ``reasons``; ``seed`` is the generation's. The last line of a reply that is
        ``truncated`` (ended at the token limit) is not used.
        """
        if self.condition == "ssot":
            return [tagged_answer(text) if self.answer_channel is None else channel_answer(text, self.answer_channel)]
        if self.condition == "batch":
            return listed_answers(text, self.answers_per_request, truncated)
        if self.condition == "verbalized":
            return [verbalized_answer(text, seed, truncated)]
        return [text]


def tagged_answer(text: str) -> str | Invalid:
    """The content of the one ``<answer>`` tag behind any reasoning trace, stripped."""
    reply = strip_reasoning(text)
    if reply is None:
        return Invalid.UNCLOSED_REASONING
    head, *contents = reply.split(ANSWER_START)
    if not contents:
        return Invalid.NO_ANSWER if reply else Invalid.EMPTY
    if len(contents) > 1:
        return Invalid.SEVERAL_ANSWERS
    answer, closed, tail = contents[0].partition(ANSWER_END)
    if not closed or ANSWER_END in head:
        return Invalid.UNCLOSED_ANSWER
    return Invalid.SEVERAL_ANSWERS if ANSWER_END in tail else answer.strip()


def channel_answer(text: str, channel: str) -> str | Invalid:
    """The one message in ``channel`` of a reply in Harmony's format, special tokens included, stripped."""
    found = []
    for part in text.split(CHANNEL)[1:]:
        header, opened, body = part.partition(MESSAGE)
        if opened and header.split()[:1] == [channel]:
            for end in MESSAGE_ENDS:
                body = body.partition(end)[0]
            found.append(body.strip())
    if not found:
        return Invalid.NO_ANSWER if text.strip() else Invalid.EMPTY
    return found[0] if len(found) == 1 else Invalid.SEVERAL_ANSWERS


def _lines(text: str, truncated: bool) -> list[str] | Invalid:
    """Non-empty lines behind any reasoning trace, without the last one of a truncated reply."""
    reply = strip_reasoning(text)
    if reply is None:
        return Invalid.UNCLOSED_REASONING
    lines = reply.splitlines()
    # A reply that ends in a line break has its last line whole.
    if truncated and not text.endswith("\n"):
        lines = lines[:-1]
    return [line.strip() for line in lines if line.strip()] or Invalid.EMPTY


def listed_answers(text: str, count: int, truncated: bool = False) -> list[str | Invalid]:
    """The first ``count`` lines of a reply; each that is missing is a failure of its own."""
    lines = _lines(text, truncated)
    if isinstance(lines, Invalid):
        return [lines] * count
    return [*lines[:count], *[Invalid.MISSING_ANSWER] * (count - len(lines))]


def verbalized_answer(text: str, seed: int, truncated: bool = False) -> str | Invalid:
    """One of a reply's candidates, drawn by the probabilities that it states, normalised by their sum. Every line must
    be "answer | probability", a number of at least 0, with a percent sign or not."""
    lines = _lines(text, truncated)
    if isinstance(lines, Invalid):
        return lines
    candidates, weights = [], []
    for line in lines:
        answer, bar, stated = line.rpartition("|")
        stated = stated.strip()
        weight = parse_number(stated.removesuffix("%"))
        if not bar or isinstance(weight, Invalid) or weight < 0:
            return Invalid.MALFORMED_CANDIDATES
        candidates.append(answer.strip())
        weights.append(weight / 100 if stated.endswith("%") else weight)
    total = sum(weights)
    if not 0 < total < float("inf"):
        return Invalid.MALFORMED_CANDIDATES
    draw = random_stream(seed, "verbalized").random() * total
    for answer, weight in zip(candidates, weights, strict=True):
        draw -= weight
        if draw < 0:
            return answer
    # Rounding may leave the draw at the last sum.
    return next(a for a, w in zip(reversed(candidates), reversed(weights), strict=True) if w > 0)
