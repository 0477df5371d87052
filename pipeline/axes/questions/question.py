"""Questions of a prompt set: options, accepted answers, people's answers in classes; and their table."""

import json
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_table, write_table

OTHER = "(other)"
"""Class of the answers that are in no class of people's."""
NO_ANSWER = "(no answer)"
"""Class of replies without an answer; nobody gives it, and it is never right."""
LETTERS = string.ascii_uppercase
CHOICE_REQUEST = "Answer with the letter only."
QUESTION_COLUMNS = ("prompt_id", "split", "category", "prompt", "bare", "question")
"""What is asked, and the whole question as JSON."""


@dataclass(frozen=True)
class HumanClass:
    """Answers of people that say the same: how many people gave each spelling. ``label`` is unique in its question."""

    label: str
    answers: Mapping[str, int]


@dataclass(frozen=True)
class Question:
    """One prompt of a prompt set; ``bare`` is ``text`` without the prompt set's template. ``gold`` are the accepted
    spellings; ``human`` is empty where people were not asked, ``num_people`` counts those in no class, too."""

    prompt_id: str
    text: str
    category: str = ""
    options: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    human: tuple[HumanClass, ...] = ()
    num_people: int = 0
    bare: str = ""


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    rows = [(q.prompt_id, "questions", q.category, q.text, q.bare, json.dumps(asdict(q))) for q in questions]
    write_table(path, pd.DataFrame(rows, columns=list(QUESTION_COLUMNS)))


def read_questions(path: Path) -> list[Question]:
    questions = []
    for text in read_table(path, QUESTION_COLUMNS)["question"]:
        content = json.loads(text)
        content["human"] = tuple(HumanClass(**item) for item in content["human"])
        content |= {name: tuple(content[name]) for name in ("options", "gold")}
        questions.append(Question(**content))
    return questions


def with_options(text: str, options: Sequence[str]) -> str:
    """A question with its options, each in a line behind its letter, and CHOICE_REQUEST; as it is without options."""
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([text, *lines, CHOICE_REQUEST]) if lines else text


def people_answers(question: Question) -> list[tuple[str, str]]:
    """Spelling and class of the answer of each of the people; of those in no class a placeholder each and OTHER."""
    answers = [
        (name, item.label) for item in question.human for name, count in item.answers.items() for _ in range(count)
    ]
    return answers + [(f"{OTHER} {number}", OTHER) for number in range(question.num_people - len(answers))]


def normalise(text: str) -> str:
    """Lower case, without punctuation, articles and repeated white space (as SQuAD and TriviaQA do)."""
    plain = "".join(
        " " if unicodedata.category(char)[0] in "PSZC" else char for char in unicodedata.normalize("NFKC", text)
    )
    words = plain.casefold().split()
    # "A" is an answer, too.
    return " ".join([word for word in words if word not in ("a", "an", "the")] or words)


def known_classes(question: Question) -> dict[str, tuple[str, ...]]:
    """Spellings, by label, of the classes that the question names: people's, the right answer, the options (with their
    letters: "B", "B.", "(B)" and "B. TEXT")."""
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


def classify(answers: Sequence[str | None], question: Question) -> list[str]:
    """The class of every answer, NO_ANSWER for None: equal ones by ``normalise``, or spellings of one known class."""
    table = {normalise(text): label for label, texts in reversed(known_classes(question).items()) for text in texts}
    keys = [normalise(answer) if answer is not None else "" for answer in answers]
    return [table.get(key, key) if key else NO_ANSWER for key in keys]


def question_problem(question: Question) -> str | None:
    """What is wrong with a question, in a sentence; None where nothing is."""
    answers = (*question.gold, *(name for item in question.human for name in item.answers))
    if not answers and not question.human:
        return "a question needs accepted answers (gold) or people's answers (human)"
    for text in (*answers, *question.options):
        if not normalise(text):
            return f"the answer {text!r} has no letter or digit"
    return _option_problem(question.options, answers) or _people_problem(question)


def _option_problem(options: Sequence[str], answers: Sequence[str]) -> str | None:
    if not options:
        return None
    if not 2 <= len(options) <= len(LETTERS):
        return f"a choice has 2 to {len(LETTERS)} options, got {len(options)}"
    if len(set(map(normalise, options))) < len(options):
        return f"two of its options are the same: {', '.join(map(repr, options))}"
    letters = set(map(normalise, LETTERS[: len(options)]))
    for text in (*options, *answers):
        if normalise(text) in letters:
            return f"the answer {text!r} reads like the letter of an option; give the option's text"
    return None


def _people_problem(question: Question) -> str | None:
    if not question.human:
        return None
    owners: dict[str, str] = {}
    for item in question.human:
        if not item.label or item.label in (OTHER, NO_ANSWER):
            return f"a class needs a label other than {OTHER!r} and {NO_ANSWER!r}, got {item.label!r}"
        if not item.answers:
            return f"the class {item.label!r} has no members"
        for name, count in item.answers.items():
            if count < 1:
                return f"the class {item.label!r} has {count} people who answered {name!r}; it must be one at least"
            other = owners.setdefault(normalise(name), item.label)
            if other != item.label:
                return f"the classes {other!r} and {item.label!r} both have the spelling {normalise(name)!r}"
    label, times = Counter(item.label for item in question.human).most_common(1)[0]
    if times > 1:
        return f"the label {label!r} is there twice"
    total = sum(sum(item.answers.values()) for item in question.human)
    if question.num_people < total:
        return f"its classes have {total} answers of people, more than the {question.num_people} people asked"
    if question.num_people < 2:
        return "one person's answer cannot be held out from others; ask two people at least"
    if len({owners[normalise(text)] for text in question.gold if normalise(text) in owners}) > 1:
        return "its accepted answers (gold) are in several classes of people's answers"
    return None
