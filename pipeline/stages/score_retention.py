"""Score the tiny tasks for one model under one condition: one row per task, item and metric.

Prompts are plain text in the tasks' published few-shot formats, behind one BOS token where the tokenizer
adds one; no chat template (see ``pipeline.engines.scoring.harness_model``). Answered requests are kept in
``--partial`` until the table is written, so a killed run continues where it stopped.
"""

import functools
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.artifacts.journal import Journal
from pipeline.artifacts.locks import scratch
from pipeline.artifacts.storage import sha256_json, write_table
from pipeline.command import run_stage
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import load_params
from pipeline.core.retention.tasks import EXPECTED_ITEMS
from pipeline.engines.loading.conditioned_model import adapter_inputs, open_model
from pipeline.errors import ConfigError
from pipeline.record.progress_bar import LoggedBar
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import stage_run
from pipeline.sources.retention_data import local_folder, pinned_revisions, read_task
from pipeline.stages.arguments import add_condition, stage_parser

if TYPE_CHECKING:
    from pipeline.engines.scoring.harness_model import HarnessModel
    from pipeline.engines.scoring.harness_tasks import Outcome

RETENTION_COLUMNS = ("task", "item", "metric", "value", "details")
"""One row per task, item (position in the task's split) and metric; details are JSON."""
PROBE = "Question: What is 2 + 3?\nAnswer:"


def _key(request: tuple[str, tuple]) -> str:
    return sha256_json(request)


def _new_answers(
    model: "HarnessModel", requests: list[tuple[str, tuple]], answered: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Responses by key to the requests that are not ``answered`` yet, a batch at a time; equal requests have one."""
    for kind in dict.fromkeys(kind for kind, _ in requests):
        missing = {_key(request): request[1] for request in requests if request[0] == kind}
        missing = {key: arguments for key, arguments in missing.items() if key not in answered}
        keys = list(missing)
        for batch in model.answer(kind, list(missing.values())):
            yield {keys[place]: response for place, response in batch}


def _responses(
    requests: list[tuple[str, tuple]], journal: Journal, model: Callable[[], "HarnessModel"], progress: LoggedBar
) -> list[Any]:
    """The response to each request, from the journal or from the model, which is loaded if it is needed."""
    keys = [_key(request) for request in requests]
    answered = {row["request"]: row["response"] for row in journal.rows()}
    progress.restored(len(answered))
    if not answered.keys() >= set(keys):
        for new in _new_answers(model(), requests, answered):
            journal.append({"request": key, "response": response} for key, response in new.items())
            answered.update(new)
            progress.update(len(new))
    return [answered[key] for key in keys]


def _rows(task: str, outcomes: list["Outcome"]) -> list[dict[str, Any]]:
    return [{"task": task, **asdict(outcome), "details": json.dumps(outcome.details)} for outcome in outcomes]


def _say_what_differs(num_items: dict[str, int]) -> None:
    for name, count in num_items.items():
        if count != EXPECTED_ITEMS:
            print(f"{name}: {count} items, where the published task has {EXPECTED_ITEMS}")


def main(
    params: Path, model: str, model_report: Path, condition: str, adapters: Path, output: Path, partial: Path
) -> None:
    """Write the scores of the tasks in ``retention.tasks``, and provenance beside them."""
    config = load_params(params)
    settings = config.retention
    if condition in BASELINES:
        raise ConfigError(f"--condition: {condition!r} is a way to ask for samples; the tiny tasks have none")
    folders = [folder for task in settings.tasks if (folder := local_folder(settings, task))]
    revisions = pinned_revisions(settings)
    record = StageRecord(
        "score_retention",
        {
            "model": config.model(model),
            "condition": condition,
            "tasks": settings.tasks,
            "source": settings.source,
            "revisions": revisions,
            "max_new_tokens": settings.max_new_tokens,
            "lm_eval": importlib.metadata.version("lm_eval"),
        },
        [model_report, *folders, *adapter_inputs(condition, adapters)],
    )
    # Data before the model: what is wrong with it shows at once.
    data = {task: read_task(settings, task, revisions) for task in settings.tasks}
    from pipeline.engines.scoring.harness_tasks import RetentionTask

    tasks = {task: RetentionTask(task, splits) for task, splits in data.items()}

    @functools.cache
    def asked() -> "HarnessModel":
        from pipeline.engines.scoring.harness_model import HarnessModel

        opened = open_model(config.model(model), model_report, condition, adapters, PROBE)
        limits = {"max_new_tokens": settings.max_new_tokens, "tokens_per_pass": settings.tokens_per_pass}
        return HarnessModel(opened.model, opened.tokenizer, opened.stop_ids, **limits)

    total = sum(len({_key(request) for request in task.requests}) for task in tasks.values())
    rows, num_items = [], {}
    with scratch(partial, f"score_retention {model} {condition}"):
        with stage_run(config, record, model=model, condition=condition) as run:
            progress = run.bar(desc=f"score retention {model} {condition}", unit="request", total=total)
            for name, task in tasks.items():
                journal = Journal(partial / record.identity[:16] / f"{name}.jsonl")
                outcomes = task.outcomes(_responses(task.requests, journal, asked, progress))
                rows += _rows(name, outcomes)
                num_items[name] = len({outcome.item for outcome in outcomes})
        _say_what_differs(num_items)
        write_table(output, pd.DataFrame(rows, columns=list(RETENTION_COLUMNS)))
        record.write(output.with_suffix(".provenance.json"), num_items=num_items, seed=config.seed)


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    add_condition(parser)
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--partial", type=Path, required=True, help="directory for the answers of an unfinished run")
    run_stage(main, parser.parse_args())
