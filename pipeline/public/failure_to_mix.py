"""Failure to Mix (arXiv:2511.14630): its script, unmodified, asks a server of ours and scores the answers."""

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import ArtifactError, ConfigError, ModelError

SCRIPT = "benchmark.py"
EXPERIMENTS = tuple(f"exp{number}" for number in range(1, 6))
# The script has no option for the address, which is a default. Its time limit of a request includes the wait behind
# thousands of others, too long on one machine. Only notebooks need nest_asyncio.
LAUNCH = """
import functools, sys, types
sys.modules["nest_asyncio"] = types.SimpleNamespace(apply=lambda: None)
import benchmark
benchmark.Config = functools.partial(benchmark.Config, api_url={address!r}, timeout={seconds})
benchmark.main()
"""


def script_of(source: Path) -> Path:
    """The script in a clone. Raises ConfigError where it is not there."""
    if not (script := source / SCRIPT).is_file():
        raise ConfigError(f"{source} has no {SCRIPT}; give a clone of the benchmark's repository")
    return script


def texts_and_options(source: Path) -> tuple[list[str], set[str]]:
    """All texts of the script, and the words that its requests offer for a choice, without digits and letters."""
    try:
        nodes = list(ast.walk(ast.parse(script_of(source).read_text())))
    except SyntaxError as error:
        raise ConfigError(f"{source / SCRIPT} is no Python ({error})") from None
    offered = [node.value for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAIRS"]
    for node in (node for node in nodes if isinstance(node, ast.Dict)):
        offered += [
            ast.Tuple(value.keys)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == "choice_map" and isinstance(value, ast.Dict)
        ]
    words = {text.lower() for tree in offered for text in _strings(ast.walk(tree))}
    return _strings(nodes), {word for word in words if word.isalpha() and len(word) > 1}


def _strings(nodes: Iterator[ast.AST] | list[ast.AST]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@contextlib.contextmanager
def served(params: Path, model: str, condition: str, batch_size: int, max_new_tokens: int) -> Iterator[tuple[str, str]]:
    """A server of a condition: its address, and the name that it goes by. Raises ModelError where it does not start."""
    options = {"params": params, "model": model, "condition": condition, "port": 0}
    options |= {"batch-size": batch_size, "max-new-tokens": max_new_tokens}
    command = [sys.executable, "-m", "pipeline.serve", *(f"--{name}={value}" for name, value in options.items())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            if not (started := re.search(r"(\S+) at (http://\S+);", server.stdout.readline())):
                raise ModelError(f"no server of {model} {condition} has started; its message is above")
            yield started[2], started[1]
        finally:
            server.terminate()


def ask(source: Path, address: str, name: str, directory: Path, seconds: int) -> None:
    """Run the script, which writes below a directory. Raises ModelError where it fails or takes longer."""
    code = LAUNCH.format(address=f"{address}/chat/completions", seconds=seconds)
    options = ["--model", name, "--api-key", "none", "--save-dir", str(directory)]
    environment = os.environ | {"PYTHONPATH": str(source.absolute())}
    try:
        ended = subprocess.run([sys.executable, "-c", code, *options], cwd=directory, env=environment, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ModelError(f"--minutes: {SCRIPT} has not ended after {seconds / 60:g} minutes; give more") from None
    if ended.returncode:
        why = "as where it can read no answer to an experiment; its message is above"
        raise ModelError(f"{SCRIPT} has ended with status {ended.returncode}, {why}")


def read_scores(directory: Path) -> list[dict[str, Any]]:
    """Score and number of readable answers of each experiment and in total, from what the script wrote."""
    summaries = list(directory.glob("*/summary.json"))
    if len(summaries) != 1:
        raise ArtifactError(f"{SCRIPT} wrote {len(summaries)} files summary.json, not 1; is it another version?")
    (summary,), rows = summaries, []
    try:
        content = json.loads(summary.read_text())
        for experiment, found in zip(EXPERIMENTS, content["experiments"].values(), strict=True):
            answers = pd.read_csv(summary.with_name(f"{experiment}_raw.csv"), dtype=str)
            unreadable = answers.filter(regex="^(answer|choice)").eq("error").any(axis=1)
            rows.append({"experiment": experiment, "score": found["score"], "n_readable": int((~unreadable).sum())})
        total = {"experiment": "total", "score": content["total_score"]}
    except (KeyError, ValueError, OSError) as error:
        raise ArtifactError(f"{SCRIPT} wrote other files than expected ({error!r}); is it another version?") from None
    return [*rows, total | {"n_readable": sum(row["n_readable"] for row in rows)}]
