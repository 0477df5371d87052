"""Tables of prompts: structured ones with their laws, those whose answers are text, and questions."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.artifacts.storage import read_arrow, write_table
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw
from pipeline.core.prompts.structured import Prompt
from pipeline.core.prompts.text import TextPrompt

PROMPT_COLUMNS = (
    *("prompt_id", "split", "family", "tier", "parameters", "prompt"),
    *("scipy_name", "scipy_kwargs", "support_lower", "support_upper", "integer"),
)
FINITE_LAW = "finite_law"
"""A further column, as JSON, of tables that hold finite laws; empty beside SciPy's."""
TEXT_PROMPT_COLUMNS = ("prompt_id", "split", "category", "prompt")


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    import pandas as pd

    rows = [
        (
            *(prompt.prompt_id, prompt.split, prompt.family, prompt.tier, json.dumps(prompt.parameters), prompt.text),
            *(prompt.law.scipy_name, json.dumps(dict(prompt.law.scipy_kwargs)), *prompt.support, prompt.law.integer),
        )
        for prompt in prompts
    ]
    table = pd.DataFrame(rows, columns=list(PROMPT_COLUMNS))
    finite = [json.dumps(asdict(p.law)) if isinstance(p.law, FiniteLaw) else "" for p in prompts]
    write_table(path, table.assign(**{FINITE_LAW: finite}) if any(finite) else table)


def _finite_law(text: str) -> FiniteLaw:
    content = json.loads(text)
    return FiniteLaw(**{name: None if value is None else tuple(value) for name, value in content.items()})


def read_prompts(*paths: Path) -> list[Prompt]:
    prompts = []
    for path in paths:
        # Without pandas, for which a training would wait.
        for row in read_arrow(path, PROMPT_COLUMNS).to_pylist():
            finite, parameters = row.get(FINITE_LAW), json.loads(row["parameters"])
            law = _finite_law(finite) if finite else Law(row["scipy_name"], json.loads(row["scipy_kwargs"]))
            names = (row[name] for name in ("prompt_id", "split", "family", "tier"))
            prompts.append(Prompt(*names, parameters, row["prompt"], law))
    return prompts


def write_text_prompts(path: Path, prompts: Sequence[TextPrompt], label: str = "") -> None:
    import pandas as pd

    rows = [(prompt.prompt_id, prompt.split, prompt.category, prompt.text) for prompt in prompts]
    write_table(path, pd.DataFrame(rows, columns=list(TEXT_PROMPT_COLUMNS)), label)


def read_text_prompts(*paths: Path) -> list[TextPrompt]:
    columns = list(TEXT_PROMPT_COLUMNS)
    tables = [read_arrow(path, columns).select(columns) for path in paths]
    return [TextPrompt(*row.values()) for table in tables for row in table.to_pylist()]


def read_requests(*paths: Path) -> list[TextPrompt]:
    """The requests of any prompt tables; of structured ones the law is left unread."""
    columns = ("prompt_id", "split", "prompt")
    rows = [row for path in paths for row in read_arrow(path, columns, only=True).to_pylist()]
    return [TextPrompt(row["prompt_id"], row["split"], "", row["prompt"]) for row in rows]
