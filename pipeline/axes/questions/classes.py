"""From answers to classes of answers that say the same: by spelling, by a table of spellings, by number, by meaning.

Total functions: any text in, a class out. Rules from strict to loose; each also finds what the stricter ones find:

- exact: the same text, or a label or an accepted answer of the question;
- normalised: the same but for case, white space, punctuation and articles;
- aliases: the same, or any member of one class of people's answers;
- number: the last number in the text;
- entailment: ``aliases``, then two texts that a judge of entailment takes to be the same.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import networkx
import numpy as np

from pipeline.axes.questions.question import LETTERS, NO_ANSWER, OTHER, Question

Rule = Literal["exact", "normalised", "aliases", "number", "entailment"]
Judge = Callable[[Sequence[tuple[str, str]]], np.ndarray]
"""bool[n] of n pairs of texts: whether they say the same."""

_ARTICLES = frozenset(("a", "an", "the"))
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\.\d+")


def normalise(text: str) -> str:
    """Lower case, without punctuation, articles and repeated white space (as SQuAD and TriviaQA do)."""
    plain = "".join(
        " " if unicodedata.category(char)[0] in "PSZC" else char for char in unicodedata.normalize("NFKC", text)
    )
    words = plain.casefold().split()
    kept = [word for word in words if word not in _ARTICLES]
    # "A" is an answer, too.
    return " ".join(kept or words)


def last_number(text: str) -> str:
    """The last number in a text as the shortest decimal of its value ("1,250.0" is "1250"); empty without any."""
    found = _NUMBER.findall(text)
    return f"{float(found[-1].replace(',', '')):.12g}" if found else ""


def known_classes(question: Question, rule: Rule) -> dict[str, tuple[str, ...]]:
    """Spellings of the classes that the question itself names, by label.

    They are those of people's answers, then the right answer and the options where they are in none of these. By the
    rules "exact" and "normalised" a class has its label, by the others its members as well. The class of an option has
    its letter, too: "B", "B.", "(B)" and "B. TEXT".
    """
    with_members = rule not in ("exact", "normalised")
    classes = {item.label: (item.label, *(item.answers if with_members else ())) for item in question.human}
    right = right_label(question)
    if right is not None:
        classes[right] = (*classes.get(right, ()), *question.gold)
    spelled = {normalise(text): label for label, spellings in classes.items() for text in spellings}
    for letter, option in zip(LETTERS, question.options, strict=False):
        label = spelled.get(normalise(option), option)
        lettered = (letter, f"{letter}.", f"({letter})", f"{letter}. {option}")
        classes[label] = (*classes.get(label, (option,)), *lettered)
    return classes


def spelling_key(rule: Rule) -> Callable[[str], str]:
    """What two texts share that a rule takes to be spelled alike; empty for a text without an answer."""
    return {"exact": str.strip, "number": last_number}.get(rule, normalise)


def right_label(question: Question) -> str | None:
    """Label of the class that is right: people's class that an accepted answer is in, else the first accepted answer.

    None where nothing is right or wrong.
    """
    if not question.gold:
        return None
    accepted = {normalise(text) for text in question.gold}
    for item in question.human:
        if accepted & {normalise(text) for text in (item.label, *item.answers)}:
            return item.label
    return question.gold[0]


def classify(answers: Sequence[str | None], question: Question, rule: Rule, same: Judge | None = None) -> list[str]:
    """The class of every answer.

    Of "entailment": a text that the question's table does not have joins the first of the question's classes that the
    judge takes its label to say the same as; the rest are in one class where a chain of pairs that say the same
    connects them (connected components), which does not depend on their order, unlike the greedy clustering of
    semantic entropy (Kuhn et al. 2023).

    Args:
        answers: Texts; None for a reply without an answer.
        question: What was asked.
        rule: How texts are compared.
        same: The judge of pairs; needed for "entailment" alone.

    Returns:
        Labels: those of ``known_classes``, the most frequent text of a class that is none of these, or NO_ANSWER.
    """
    key, known = spelling_key(rule), known_classes(question, rule)
    table = {key(text): label for label, texts in reversed(known.items()) for text in texts}
    keys = [key(answer) if answer is not None else "" for answer in answers]
    labels = {found: table.get(found, found) for found in keys if found}
    if rule == "entailment":
        labels |= _by_meaning([found for found in labels if found not in table], keys, list(known), same)
    return [labels.get(found, NO_ANSWER) for found in keys]


def by_judge(texts: Sequence[str], names: Sequence[str], same: Judge) -> dict[str, str]:
    """By text, the first of the classes ``names`` that the judge takes it to say the same as, where there is one."""
    against = [(text, name) for text in texts for name in names]
    joined = np.asarray(same(against), dtype=bool).reshape(len(texts), len(names)) if against else np.zeros((0, 0))
    return {text: names[int(row.argmax())] for text, row in zip(texts, joined, strict=False) if row.any()}


def _by_meaning(texts: Sequence[str], keys: Sequence[str], names: Sequence[str], same: Judge | None) -> dict[str, str]:
    """Labels of the texts that no table has."""
    if same is None:
        raise ValueError("the rule entailment needs a judge")
    labels = by_judge(texts, names, same)
    rest = [text for text in texts if text not in labels]
    pairs = list(itertools.combinations(rest, 2))
    graph = networkx.Graph(itertools.compress(pairs, same(pairs) if pairs else ()))
    graph.add_nodes_from(rest)
    counts = Counter(keys)
    for members in networkx.connected_components(graph):
        labels |= dict.fromkeys(members, max(members, key=lambda text: (counts[text], text)))
    return labels


def says_the_same(first: np.ndarray, second: np.ndarray, *, strict: bool) -> np.ndarray:
    """Whether two texts are of one class, by the verdicts of a model of natural language inference.

    Args:
        first: Verdicts on the second text given the first, float64[n]: 1 it follows, 0 it may be, -1 it cannot be.
        second: The same the other way round.
        strict: Whether both must follow; else neither may be contradicted, and one must follow, as the code of
            semantic entropy has it (Kuhn et al. 2023).

    Returns:
        bool[n].
    """
    least, most = np.minimum(first, second), np.maximum(first, second)
    return least > 0 if strict else (least >= 0) & (most > 0)


def counts_of(labels: Sequence[str]) -> dict[str, int]:
    """How often each class was answered, most frequent first, equal ones in code point order."""
    return dict(sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0])))


def within_people(counts: dict[str, int], question: Question) -> dict[str, int]:
    """Counts with every answer that is in no class of people's under OTHER; NO_ANSWER stays, nobody gave it."""
    labels = {item.label for item in question.human} | {NO_ANSWER}
    found: Counter[str] = Counter()
    for label, count in counts.items():
        found[label if label in labels else OTHER] += count
    return dict(found)
