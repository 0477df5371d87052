"""Write the seven small slices that stand in for PALOMA in the demonstration: ``python -m scripts.make_paloma_slices``.

``prose`` is text of CPython's language reference as it ships in ``pydoc_data.topics`` (copyright Python Software
Foundation, PSF License Version 2), on which the embedded model was trained, so that it has one slice that it reads
well. Everything else was written for this project: ``german`` and ``dialogue`` by hand, ``code`` by hand and from
templates, the rest from templates and the embedded model's word lists. Only ``prose`` depends on the Python version
(the files in data/paloma are from 3.11.7); files are byte for byte the same on every run.
"""

import argparse
import csv
import gzip
import io
import json
import pydoc_data.topics
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from pipeline.artifacts.atomic import atomic_path
from pipeline.core.laws.families import FAMILIES
from pipeline.core.random_streams import random_stream
from scripts.embedded_model import knowledge
from scripts.paloma_texts import CODE, DIALOGUE, GERMAN

TOPICS = (
    "augassign",
    "binary",
    "bltin-type-objects",
    "calls",
    "class",
    "context-managers",
    "customization",
    "del",
    "exceptions",
    "for",
    "formatstrings",
    "function",
    "global",
    "import",
    "lambda",
    "numbers",
    "objects",
    "operator-summary",
    "power",
    "raise",
    "return",
    "slicings",
    "try",
    "typesmethods",
    "typesseq-mutable",
    "while",
    "with",
    "yield",
)
LONGEST_PROSE = 3000
LANGUAGES = (
    ("python", "def {name}({a}, {b}):\n    return {a} {operator} {b}\n\n\nprint({name}({x}, {y}))\n"),
    ("c", "int {name}(int {a}, int {b}) {{\n    return {a} {operator} {b};\n}}\n"),
    ("sql", "SELECT {a}, SUM({b}) AS total\nFROM {name}\nWHERE {b} > {x}\nGROUP BY {a}\nLIMIT {y};\n"),
    ("shell", 'for {a} in $(seq {x} {y}); do\n    echo "{name} ${a}" >> {b}.log\ndone\n'),
    ("json", '{{\n  "{name}": {{"{a}": {x}, "{b}": [{y}, {x}]}}\n}}\n'),
)


def prose() -> list[str]:
    """Topics of CPython's language reference, long ones cut at a paragraph."""
    texts = (pydoc_data.topics.topics[name].strip() for name in TOPICS)
    return [text if len(text) <= LONGEST_PROSE else text[: text.rfind("\n\n", 0, LONGEST_PROSE)] for text in texts]


def reference() -> list[str]:
    """Entries in the manner of an encyclopedia: the distribution families, capitals, elements, word groups."""
    entries = []
    for family in FAMILIES.values():
        names = ", ".join(parameter.name for parameter in family.parameters)
        entries.append(
            f"{family.display_name} distribution\n\nA probability distribution with the parameters {names}. "
            f"A sample of it is a number; many samples together show its shape, its centre and its spread."
        )
    for country, capital in knowledge.CAPITALS.items():
        entries.append(f"{capital}\n\n{capital} is the capital of {country}. The government of {country} sits there.")
    for element, symbol in knowledge.SYMBOLS.items():
        title = element.capitalize()
        entries.append(f"{title}\n\n{title} is a chemical element with the symbol {symbol}.")
    for category, members in list(knowledge.CATEGORIES.items())[:20]:
        listing = f"{', '.join(members[:-1])} and {members[-1]}"
        entries.append(f"{category.capitalize()}\n\nExamples of a {category} are {listing}.")
    return entries


def code(rng: np.random.Generator) -> list[str]:
    """Handwritten snippets, and small ones from templates in five languages."""
    snippets = list(CODE)
    for index in range(25):
        language, template = LANGUAGES[index % len(LANGUAGES)]
        name, a, b = rng.choice(knowledge.CATEGORIES["noun"], 3, replace=False)
        x, y = sorted(rng.integers(1, 60, size=2).tolist())
        operator = str(rng.choice(["+", "-", "*"]))
        comment = {"python": "# ", "shell": "# ", "sql": "-- ", "c": "// "}.get(language)
        head = f"{comment}{name} by {a} and {b}\n" if comment else ""
        snippets.append(head + template.format(name=name, a=a, b=b, x=x, y=y, operator=operator))
    return snippets


def tables(rng: np.random.Generator) -> list[str]:
    """Tables of random stock lists: comma-separated, Markdown, and aligned columns in turn."""
    documents = []
    for index in range(30):
        category = str(rng.choice(["fruit", "vegetable", "tool", "furniture item", "clothing item"]))
        items = rng.permutation(knowledge.CATEGORIES[category])[: rng.integers(4, 9)].tolist()
        header = ["item", "city", "amount", "price"]
        rows = [
            [item, str(rng.choice(knowledge.CATEGORIES["city"])), str(rng.integers(1, 200)), f"{rng.gamma(2, 4):.2f}"]
            for item in items
        ]
        if index % 3 == 0:
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator="\n").writerows([header, *rows])
            documents.append(buffer.getvalue())
        elif index % 3 == 1:
            lines = [header, ["---"] * 4, *rows]
            documents.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
        else:
            documents.append(
                "".join("".join(f"{cell:<14}" for cell in line).rstrip() + "\n" for line in [header, *rows])
            )
    return documents


def numbers(rng: np.random.Generator) -> list[str]:
    """Number sequences, tables of multiples, dates, measurements and sums."""
    documents = []
    for index in range(30):
        start, step = int(rng.integers(1, 40)), int(rng.integers(2, 12))
        kind = index % 5
        if kind == 0:
            text = ", ".join(str(start + step * i) for i in range(40))
        elif kind == 1:
            text = "\n".join(f"{i} x {step} = {i * step}" for i in range(1, 13))
        elif kind == 2:
            first = date(2000 + start, 1 + step % 12, 1 + start % 28)
            text = "\n".join((first + timedelta(days=7 * i)).isoformat() for i in range(16))
        elif kind == 3:
            text = " ".join(f"{value:.{1 + step % 4}f}" for value in rng.normal(start, step, size=30))
        else:
            pairs = rng.integers(0, 50, size=(14, 2)).tolist()
            text = "\n".join(f"{a} + {b} = {a + b}" for a, b in pairs)
        documents.append(text + "\n")
    return documents


def own_slices() -> dict[str, list[str]]:
    """Documents by slice, all but ``prose``; the same under every Python version."""
    drawn: dict[str, Callable[[np.random.Generator], list[str]]] = {"code": code, "tables": tables, "numbers": numbers}
    made = {name: make(random_stream(0, "paloma slices", name)) for name, make in drawn.items()}
    return {"reference": reference(), **made, "german": list(GERMAN), "dialogue": list(DIALOGUE)}


def gzip_json_lines(name: str, texts: Iterable[str]) -> bytes:
    """A slice's file: one object with id, source and text per line, compressed, without a time in the header."""
    lines = (
        json.dumps({"id": f"{name}-{index}", "source": name, "text": text}, ensure_ascii=False) + "\n"
        for index, text in enumerate(texts)
    )
    return gzip.compress("".join(lines).encode(), compresslevel=9, mtime=0)


def main(output: Path) -> None:
    """Write SLICE/test/SLICE.jsonl.gz below ``output``."""
    for name, texts in {"prose": prose(), **own_slices()}.items():
        content = gzip_json_lines(name, texts)
        with atomic_path(output / name / "test" / f"{name}.jsonl.gz") as temporary:
            temporary.write_bytes(content)
        size = sum(len(text.encode()) for text in texts)
        print(f"{name}: {len(texts)} documents, {size} bytes of text, {len(content)} compressed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("data/paloma"), help="directory (default: %(default)s)")
    main(**vars(parser.parse_args()))
