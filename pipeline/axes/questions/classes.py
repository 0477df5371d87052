"""From answers to classes of answers that say the same, by spelling and, if asked for, by a judge of entailment.

Two answers are one class where they are the same but for case, white space, punctuation and articles, or are spellings
of one class of people's answers; by the rule "entailment" also where a judge takes them to say the same.
"""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

import networkx
import numpy as np

from pipeline.axes.questions.question import LETTERS, NO_ANSWER, Question

Judge = Callable[[Sequence[tuple[str, str]]], np.ndarray]
"""bool[n] of n pairs of texts: whether they say the same."""


def normalise(text: str) -> str:
    """Lower case, without punctuation, articles and repeated white space (as SQuAD and TriviaQA do)."""
    plain = "".join(
        " " if unicodedata.category(char)[0] in "PSZC" else char for char in unicodedata.normalize("NFKC", text)
    )
    words = plain.casefold().split()
    # "A" is an answer, too.
    return " ".join([word for word in words if word not in ("a", "an", "the")] or words)


def known_classes(question: Question) -> dict[str, tuple[str, ...]]:
    """Spellings, by label, of the classes that the question names: people's, the right answer, the options.

    The class of an option has its letter, too: "B", "B.", "(B)" and "B. TEXT".
    """
    classes = {item.label: (item.label, *item.answers) for item in question.human}
    right = right_label(question)
    if right is not None:
        classes[right] = (*classes.get(right, ()), *question.gold)
    spelled = {normalise(text): label for label, spellings in classes.items() for text in spellings}
    for letter, option in zip(LETTERS, question.options, strict=False):
        label = spelled.get(normalise(option), option)
        lettered = (letter, f"{letter}.", f"({letter})", f"{letter}. {option}")
        classes[label] = (*classes.get(label, (option,)), *lettered)
    return classes


def right_label(question: Question) -> str | None:
    """Label of the right class: people's class that an accepted answer is in, else the first accepted answer."""
    accepted = {normalise(text) for text in question.gold}
    for item in question.human:
        if accepted & {normalise(text) for text in (item.label, *item.answers)}:
            return item.label
    return question.gold[0] if question.gold else None


def classify(answers: Sequence[str | None], question: Question, same: Judge | None = None) -> list[str]:
    """The class of every answer, NO_ANSWER for None.

    With a judge a text that no table has joins the first class whose label the judge takes to say the same; the rest
    are one class where a chain of pairs that say the same connects them, whatever their order.
    """
    known = known_classes(question)
    table = {normalise(text): label for label, texts in reversed(known.items()) for text in texts}
    keys = [normalise(answer) if answer is not None else "" for answer in answers]
    labels = {found: table.get(found, found) for found in keys if found}
    if same is not None:
        labels |= _by_meaning([found for found in labels if found not in table], keys, list(known), same)
    return [labels.get(found, NO_ANSWER) for found in keys]


def _by_meaning(texts: Sequence[str], keys: Sequence[str], names: Sequence[str], same: Judge) -> dict[str, str]:
    """Labels of the texts that no table has."""
    against = list(itertools.product(texts, names))
    joined = np.asarray(same(against), dtype=bool).reshape(len(texts), len(names)) if against else np.zeros((0, 0))
    labels = {text: names[int(row.argmax())] for text, row in zip(texts, joined, strict=False) if row.any()}
    rest = [text for text in texts if text not in labels]
    pairs = list(itertools.combinations(rest, 2))
    graph = networkx.Graph(itertools.compress(pairs, same(pairs) if pairs else ()))
    graph.add_nodes_from(rest)
    counts = Counter(keys)
    for members in networkx.connected_components(graph):
        labels |= dict.fromkeys(members, max(members, key=lambda text: (counts[text], text)))
    return labels


def says_the_same(first: np.ndarray, second: np.ndarray, *, strict: bool) -> np.ndarray:
    """Whether two texts are of one class, by verdicts either way: 1 it follows, 0 it may be, -1 it cannot be.

    ``strict``: both must follow; else neither may be contradicted and one must follow (Kuhn et al. 2023).
    """
    least, most = np.minimum(first, second), np.maximum(first, second)
    return least > 0 if strict else (least >= 0) & (most > 0)
