"""How each condition asks for an answer, and where in the reply the answer is; any text in, answers or reasons out."""

from dataclasses import dataclass

from pipeline.core.prompts.number_answers import Invalid, strip_reasoning

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


@dataclass(frozen=True)
class AnswerProtocol:
    """How a condition asks and reads the reply: "ssot" with an instruction beside the task, which is answered in
    ``answer_channel`` (None for a tag), all others directly."""

    condition: str
    answer_channel: str | None = None

    @property
    def reasons(self) -> bool:
        return self.condition == "ssot"

    def messages(self, axis: str, prompt: str, instruction_role: str = "system") -> list[dict[str, str]]:
        """A request on the axis "structured" or "open", behind what is said beside the task."""
        instructions = SEED_INSTRUCTIONS if self.answer_channel is None else CHANNEL_SEED_INSTRUCTIONS
        head = [{"role": instruction_role, "content": instructions[axis]}] if self.reasons else []
        return [*head, {"role": "user", "content": prompt}]

    def answer(self, text: str) -> str | Invalid:
        """The answer in a reply, or why there is none; the text has special tokens where ``reasons``."""
        if not self.reasons:
            return text
        return tagged_answer(text) if self.answer_channel is None else channel_answer(text, self.answer_channel)


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
