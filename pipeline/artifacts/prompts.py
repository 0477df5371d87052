"""Tables of prompts: structured ones with their laws, those whose answers are text, and questions."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_table, write_table
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
        for row in read_table(path, PROMPT_COLUMNS).itertuples():
            finite = getattr(row, FINITE_LAW, "")
            law = _finite_law(finite) if finite else Law(row.scipy_name, json.loads(row.scipy_kwargs))
            parameters = json.loads(row.parameters)
            prompts.append(Prompt(row.prompt_id, row.split, row.family, row.tier, parameters, row.prompt, law))
    return prompts


def text_prompt_table(prompts: Sequence[TextPrompt]) -> pd.DataFrame:
    rows = [(prompt.prompt_id, prompt.split, prompt.category, prompt.text) for prompt in prompts]
    return pd.DataFrame(rows, columns=list(TEXT_PROMPT_COLUMNS))


def write_text_prompts(path: Path, prompts: Sequence[TextPrompt]) -> None:
    write_table(path, text_prompt_table(prompts))


def read_text_prompts(*paths: Path) -> list[TextPrompt]:
    tables = [read_table(path, TEXT_PROMPT_COLUMNS)[list(TEXT_PROMPT_COLUMNS)] for path in paths]
    return [TextPrompt(*row) for table in tables for row in table.itertuples(index=False, name=None)]


def read_requests(*paths: Path) -> list[TextPrompt]:
    """The requests of any prompt tables; of structured ones the law is left unread."""
    tables = [read_table(path, ("prompt_id", "split", "prompt")) for path in paths]
    return [TextPrompt(row.prompt_id, row.split, "", row.prompt) for table in tables for row in table.itertuples()]
