"""Score the tasks for one model under one condition: one row per task, item and metric, with the form in which the
prompts were put (see ``pipeline.engines.scoring.task_model``)."""

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.model_report import model_revision
from pipeline.artifacts.scores import ITEM_SCORE_COLUMNS
from pipeline.artifacts.storage import sha256_json
from pipeline.config.conditions import adapter_directory
from pipeline.config.models import ModelConfig
from pipeline.core.retention.items import Render, RetentionTask
from pipeline.core.retention.tasks import TASKS
from pipeline.dag.execution import StageRun, command_line
from pipeline.engines.loading.conditioned_model import open_model
from pipeline.sources.retention_data import pinned_revisions, read_task
from pipeline.stages.resumable import resumable

PROBE = "Question: What is 2 + 3?\nAnswer:"


def _chat_template(config: ModelConfig, report: Path) -> Render | None:
    """The model's chat template up to the answer (GPT-OSS: in the final channel); None where it has none."""
    from pipeline.engines.loading.chat import render_request
    from pipeline.engines.loading.model import load_tokenizer

    tokenizer, chat = load_tokenizer(config, model_revision(report)), config.chat
    if tokenizer.chat_template is None:
        return None
    options = {"template_arguments": chat.template_arguments, "answer_prefix": chat.answer_prefix}
    return functools.partial(render_request, tokenizer, **options)


def main(run: StageRun, model: str, condition: str, model_report: Path, weights: Path, output: Path) -> None:
    """Write the scores of the tasks in ``retention.tasks``."""
    settings, config = run.params.retention, run.params.models[model]
    revisions = pinned_revisions(settings)
    render = None if settings.prompt_format == "plain" else _chat_template(config, model_report)
    prompt_format = "plain" if render is None else "chat"
    if prompt_format != settings.prompt_format:
        print(f"{run.title}: the model has no chat template; prompts are plain text")
    run.record.add(revisions=revisions, prompt_format=prompt_format)
    # Data before the model: what is wrong with it shows at once.
    tasks = {
        task: RetentionTask(task, read_task(settings, task, revisions), render, settings.scoring)
        for task in settings.tasks
    }

    def answers(missing: dict[str, tuple[str, str, tuple]]) -> Iterator[dict[str, Any]]:
        from pipeline.engines.sampling.text_engine import task_law
        from pipeline.engines.scoring.task_model import TaskModel

        opened = open_model(config, model_report, adapter_directory(condition, weights), PROBE)
        limits = {"max_new_tokens": settings.max_new_tokens, "tokens_per_pass": settings.tokens_per_pass}
        form = {"in_template": render is not None, "add_special_tokens": config.chat.add_special_tokens}
        law = task_law(settings.decoding, config, model_revision(model_report))
        drawn = {"law": law, "names": (run.params.seed, "tasks", model, condition)}
        asked = TaskModel(opened.model, opened.tokenizer, opened.stop_ids, **limits, **form, **drawn)
        for name, kind in dict.fromkeys((name, kind) for name, kind, _ in missing.values()):
            keys = [key for key, request in missing.items() if request[:2] == (name, kind)]
            for batch in asked.answer(kind, [missing[key][2] for key in keys]):
                yield {keys[place]: response for place, response in batch}

    # Equal requests have one response.
    keys = {name: [sha256_json(request) for request in task.requests] for name, task in tasks.items()}
    requests = {
        key: (name, *request)
        for name, task in tasks.items()
        for key, request in zip(keys[name], task.requests, strict=True)
    }
    rows, num_items = [], {}
    with resumable(run, "request", len(requests)) as done:
        done(requests, answers)
        for name, task in tasks.items():
            outcomes = task.outcomes([done.values[key] for key in keys[name]])
            rows += [{"task": name, **asdict(found), "details": json.dumps(found.details)} for found in outcomes]
            num_items[name] = len({outcome.item for outcome in outcomes})
            if num_items[name] != TASKS[name].items:
                print(f"{name}: {num_items[name]} items, where the published task has {TASKS[name].items}")
        table = pd.DataFrame(rows).assign(prompt_format=prompt_format)
        run.write_table(output, table[list(ITEM_SCORE_COLUMNS)])
        run.write_record(num_items=num_items)


if __name__ == "__main__":
    command_line()
