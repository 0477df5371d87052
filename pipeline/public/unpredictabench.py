"""UnpredictaBench (arXiv:2606.06622): its problems, asked of a model here, and KS@100 of the answers."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from pipeline.artifacts.json_lines import read_json_lines
from pipeline.artifacts.storage import read_json
from pipeline.core.prompts.number_answers import Invalid, parse_number, strip_reasoning
from pipeline.core.random_streams import stream_seed
from pipeline.core.statistics.ks_test import NUM_ANSWERS, passes
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.engines.sampling.text_engine import TextEngine

FIELDS = ("task", "uid", "id", "prompt_text")
ATTEMPTS = 5  # at an answer with a number
DISCRETE = "Discrete_distributions"
_BRACKETED = re.compile(r"[\[{]\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*[\]}]")


@dataclass(frozen=True)
class Problem:
    """A request for a number, and float64[m] values of what it should be drawn from."""

    key: str
    task: str
    text: str
    truth: np.ndarray
    discrete: bool


def read_problems(source: Path) -> tuple[list[Problem], list[str]]:
    """The problems of a directory with the data set's rows (.parquet or .jsonl) and ground_truth_values/, and a
    sentence on each that is left out. Raises ConfigError without any."""
    truths = {
        (path.parent.name, record.get("uid")): record.get("ground_truth_values")
        for path in sorted(source.glob("ground_truth_values/*/ground_truth_values.json"))
        for record in read_json(path)
        if isinstance(record, dict)
    }
    problems, left_out = [], []
    for row in _rows(source):
        name = f"{row.get('task')}/{row.get('uid') or row.get('id')}"
        missing = [field for field in FIELDS if not isinstance(row.get(field), str)]
        truth = _numbers(truths.get((row.get("task"), row.get("uid"))))
        if missing:
            left_out.append(f"problem {name}: it has no {', '.join(missing)}, and is left out")
        elif row["task"].startswith("shuffling"):
            left_out.append(f"problem {name}: it asks for a list, and is left out")
        elif len(truth) <= NUM_ANSWERS:
            left_out.append(f"problem {name}: ground_truth_values has no numbers of it; it is left out")
        else:
            problems.append(Problem(name, row["task"], row["prompt_text"], truth, DISCRETE in row["id"]))
    if not problems:
        raise ConfigError(f"{source} has no complete problem; {(*left_out, 'it has no rows in .parquet or .jsonl')[0]}")
    return problems, left_out


def _rows(source: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(source.rglob("*.parquet")):
        yield from pd.read_parquet(path).to_dict("records")
    for path in sorted(source.rglob("*.jsonl")):
        yield from read_json_lines(path, ())


def _numbers(values: Any) -> np.ndarray:
    """float64[m]; empty where the values are no list of finite numbers."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)
    return numbers if numbers.ndim == 1 and np.isfinite(numbers).all() else np.empty(0)


def read_answer(text: str) -> float | Invalid:
    """The number that an answer consists of, or the first one in brackets or braces."""
    found = _BRACKETED.search(strip_reasoning(text) or "")
    return parse_number(found[1] if found else text)


def draw_answers(
    engine: "TextEngine",
    prompts: Mapping[str, list[int]],
    context: int | None,
    max_new_tokens: int,
    stream: Sequence[int | str],
) -> dict[str, np.ndarray]:
    """Up to NUM_ANSWERS numbers for each encoded problem by its key; what is no number is asked for again, ATTEMPTS
    times in all. A problem that leaves less room in the context has shorter answers, or none. ``stream`` is a seed with
    the names of a random stream."""
    from pipeline.engines.sampling.text_engine import SampleRequest

    found: dict[str, dict[int, float]] = {key: {} for key in prompts}
    room = {key: min(max_new_tokens, (context or math.inf) - len(ids)) for key, ids in prompts.items()}
    for attempt in range(ATTEMPTS):
        requests = []
        for key, ids in prompts.items():
            slots = [slot for slot in range(NUM_ANSWERS) if slot not in found[key]]
            if slots and room[key] > 0:
                seeds = {slot: stream_seed(*stream, key, slot, attempt) for slot in slots}
                requests.append(SampleRequest(key, ids, seeds, room[key]))
        asked = sum(len(request.seeds) for request in requests)
        drawn = itertools.chain.from_iterable(engine.sample(requests)) if requests else ()
        for sample in tqdm(drawn, f"attempt {attempt + 1} of {ATTEMPTS}", asked, unit="answer", disable=None):
            value = read_answer(sample.generation.text)
            if not isinstance(value, Invalid):
                found[sample.key][sample.sample_index] = value
    return {key: np.array([values[slot] for slot in sorted(values)]) for key, values in found.items()}


def score(problems: Sequence[Problem], answers: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """KS@100 in percent and the number of answers, of each task and in total."""
    rows = pd.DataFrame(
        {
            "experiment": [problem.task for problem in problems],
            "score": [100.0 * passes(answers[p.key], p.truth, p.discrete) for p in problems],
            "n_readable": [len(answers[problem.key]) for problem in problems],
        }
    )
    both = pd.concat([rows, rows.assign(experiment="total")])
    of_task = both.groupby("experiment", sort=False).agg({"score": "mean", "n_readable": "sum"})
    return of_task.reset_index().to_dict("records")
