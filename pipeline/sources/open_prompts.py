"""The open-ended requests: our own list, or those of a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.core.prompts.open_ended import open_prompt, open_prompts
from pipeline.core.prompts.text import TextPrompt
from pipeline.errors import ArtifactError, ConfigError

KEY = "prompts.open.source"


def read_open_prompts(source: str | None) -> list[TextPrompt]:
    """The prompts of the split "open", in the source's order.

    Args:
        source: A file with one request per line (.txt), with JSON objects per line that have the field prompt and,
            where known, category (.jsonl), or with one JSON list of texts (.json); None for our own 102.

    Raises:
        ConfigError: The file's name has another ending.
        ArtifactError: The file is missing, is not of its format, or has no prompt, an empty one or one twice; names
            the place.
    """
    if source is None:
        return open_prompts()
    path = Path(source)
    readers = {".txt": _lines, ".jsonl": _json_lines, ".json": _json_list}
    if path.suffix not in readers:
        raise ConfigError(f"{KEY}: {source} must end in {', '.join(readers)}")
    if not path.is_file():
        raise ArtifactError(f"{KEY}: {source} does not exist")
    prompts: dict[str, TextPrompt] = {}
    for place, (text, category) in readers[path.suffix](path).items():
        if not isinstance(text, str) or not text.strip():
            raise ArtifactError(f"{source}: {place}: a prompt must be a text, got {text!r}")
        if not isinstance(category, str):
            raise ArtifactError(f"{source}: {place}: the category must be a text, got {category!r}")
        prompt = open_prompt(text.strip(), category)
        if prompt.prompt_id in prompts:
            raise ArtifactError(f"{source}: {place}: the prompt {prompt.text!r} is there twice")
        prompts[prompt.prompt_id] = prompt
    if not prompts:
        raise ArtifactError(f"{source} has no prompts")
    return list(prompts.values())


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not UTF-8 text (byte {error.start})") from None


def _lines(path: Path) -> Mapping[str, tuple[str, str]]:
    lines = enumerate(_text(path).splitlines(), start=1)
    return {f"line {number}": (line, "") for number, line in lines if line.strip()}


def _json_lines(path: Path) -> Mapping[str, tuple[Any, Any]]:
    rows = enumerate(read_json_lines(path, ("prompt",)), start=1)
    return {f"prompt {number}": (row["prompt"], row.get("category") or "") for number, row in rows}


def _json_list(path: Path) -> Mapping[str, tuple[Any, str]]:
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise ArtifactError(f"{path} is not JSON ({error})") from None
    if not isinstance(found, list):
        raise ArtifactError(f"{path} must hold one list of texts")
    return {f"prompt {number}": (text, "") for number, text in enumerate(found, start=1)}
