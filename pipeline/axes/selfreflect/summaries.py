"""SelfReflect (arXiv:2505.20295): does a summary of a model's answers carry their distribution? A judge guesses a
hidden word of a further answer, once from the summary and once from a list of the answers."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from pipeline.axes.questions.question import NO_ANSWER

WRITTEN = ("sampled", "direct")
"""Summaries that the model writes: of its answers, which it is shown, and of those that it might give."""
SUMMARIES = (*WRITTEN, "perfect", "null")
"""And two references: the counts of the answers in words, and the summary of another question's answers."""
BLANK = "____"
"""Stands for the hidden word."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_FUNCTION_WORDS = (
    "a an the this that these those and or but nor if than then as "
    "of in on at to by for from with into onto over under about "
    "i me my you your he him his she her it its we us our they them their who whom whose which what there here "
    "is are was were be been being am do does did have has had will would can could shall should may might must "
    "not so such very also just"
)


def masked_words(answer: str) -> list[tuple[str, str]]:
    """Each content word of an answer, and the answer with BLANK in its place; every word where none is content."""
    words = list(_WORD.finditer(answer))
    content = [match for match in words if match.group().casefold() not in _FUNCTION_WORDS.split()]
    return [(match.group(), f"{answer[: match.start()]}{BLANK}{answer[match.end() :]}") for match in content or words]


def answer_list(answers: Sequence[str]) -> str:
    return "\n".join(f"- {answer}" for answer in answers)


def perfect_summary(answers: Sequence[str]) -> str:
    """How often each answer is there, in words, the most frequent first, equal ones in code point order."""
    counts = sorted(Counter(answers).items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{count} {'is' if count == 1 else 'are'} {answer}" for answer, count in counts]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {len(answers)} answer{'s' if len(answers) > 1 else ''}, {listed}."


def summary_request(question: str, answers: Sequence[str] | None) -> str:
    """The request for a summary of the answers, or without them (None) of those that the model might give."""
    if answers is None:
        return (
            f"Question: {question}\n\nDo not answer the question. Say in one or two sentences which answers you might "
            "give to it, and how likely each of them is. Write these sentences alone."
        )
    return (
        f"Question: {question}\n\nYou were asked this question {len(answers)} times. Your answers:\n"
        f"{answer_list(answers)}\n\nSay in one or two sentences which answers you gave, and how often each of them. "
        "Write these sentences alone."
    )


def word_request(question: str, context: str, masked: str) -> str:
    """What the judge is asked: the word that is hidden in an answer, given a summary of answers or their list."""
    return (
        f"A question was asked many times. What is known of the answers:\n{context}\n\nQuestion: {question}\n"
        f"One more answer, in which a word is hidden: {masked}\n\nWhich word is hidden behind {BLANK}? Write that word "
        "alone."
    )


def tempered_distance(first: np.ndarray, second: np.ndarray, temperature: float) -> float:
    """1/2 ||P - Q||_1 of P = softmax(z / temperature); a large temperature lets rare words count, too."""
    laws = [softmax(np.asarray(logits, dtype=np.float64) / temperature) for logits in (first, second)]
    return 0.5 * float(np.abs(laws[0] - laws[1]).sum())


def listed_and_tested(answers: Sequence[str | None], tested: int) -> tuple[list[str], list[str]]:
    """The answers of the list (NO_ANSWER for a reply without one), and those of the last ``tested`` replies."""
    split = len(answers) - tested
    return [answer or NO_ANSWER for answer in answers[:split]], [answer for answer in answers[split:] if answer]
