"""Small projects of their own: the code and the configuration at hand, a model of seconds, real DVC."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

from pipeline.compose import compose_params, write_files
from pipeline.core.prompts.open_ended import open_prompts
from tests.conftest import ROOT, TINY_OVERRIDES

FEW_OPEN_PROMPTS = "few_open_prompts.jsonl"
# One seen and one held-out family: every edge of the DAG, in the least time.
FEW_PROMPTS = (
    "prompts.families=[gaussian,bernoulli]",
    "prompts.train_prompts_per_family=4",
    f"prompts.open.source={FEW_OPEN_PROMPTS}",
)


def write_few_open_prompts(project: Path) -> None:
    """Some of the 102 open-ended requests, in a file of their own."""
    chosen = [prompt for prompt in open_prompts() if prompt.category in ("city", "word", "color", "mammal", "weekday")]
    lines = [json.dumps({"prompt": prompt.text, "category": prompt.category}) for prompt in chosen]
    (project / FEW_OPEN_PROMPTS).write_text("\n".join(lines) + "\n")


def write_short_tasks(directory: Path) -> None:
    """The shipped items of two tasks, as many and in the same form, with a fifth of the text."""
    for task, shorten in (
        # The item itself, without the examples before it.
        ("tinyMMLU", lambda row: {"input_formatted": row["input_formatted"].rpartition("\n\n")[2]}),
        # The sum that the answer begins with.
        ("tinyGSM8k", lambda row: {"question": row["answer"].partition(" = ")[0]}),
    ):
        (directory / task).mkdir(parents=True, exist_ok=True)
        for path in (ROOT / "data" / "retention" / task).glob("*.jsonl"):
            rows = (json.loads(line) for line in path.read_text().splitlines())
            lines = [json.dumps(row | shorten(row)) for row in rows]
            (directory / task / path.name).write_text("\n".join(lines) + "\n")


def write_params(project: Path, checkpoint: Path, *overrides: str) -> None:
    """Compose params.yaml and what follows from it, with a model of its own."""
    chosen = [*TINY_OVERRIDES, f"models.embedded.checkpoint={checkpoint}", *FEW_PROMPTS, *overrides]
    write_files(project, compose_params(project / "conf", chosen), chosen)


IGNORED = shutil.ignore_patterns("__pycache__", "cache", "tmp", "config.local")


def clone_project(directory: Path, checkpoint: Path, *overrides: str) -> Path:
    """A directory with all that stages need, but for the code a copy, and parameters for a DAG of seconds."""
    directory.mkdir(exist_ok=True)
    for name in ("conf", "data", ".dvc"):
        shutil.copytree(ROOT / name, directory / name, ignore=IGNORED)
    (directory / "pipeline").symlink_to(ROOT / "pipeline")
    for name in (".gitignore", ".dvcignore", "dvc.yaml"):
        shutil.copy(ROOT / name, directory / name)
    write_few_open_prompts(directory)
    write_short_tasks(directory / "data" / "retention")
    write_params(directory, checkpoint, *overrides)
    return directory


def copy_code(clone: Path) -> None:
    """Give a clone code of its own, for what edits it."""
    (clone / "pipeline").unlink()
    shutil.copytree(ROOT / "pipeline", clone / "pipeline", ignore=IGNORED)


def run(directory: Path, environment: dict[str, str], *command: str) -> str:
    """What a command prints; its errors fail the test."""
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}: {result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def dvc(directory: Path, environment: dict[str, str], *arguments: str) -> str:
    """What a command of DVC prints."""
    return run(directory, environment, sys.executable, "-m", "dvc", *arguments)


def insert_statement(path: Path, name: str) -> None:
    """Put a statement at the start of a function."""
    text = path.read_text()
    definition = next(node for node in ast.walk(ast.parse(text)) if getattr(node, "name", None) == name)
    # Behind the docstring, which every public function has.
    line, lines = definition.body[1].lineno - 1, text.splitlines()
    lines.insert(line, " " * definition.body[1].col_offset + "edited = 0")
    path.write_text("\n".join(lines) + "\n")
