"""TinyBenchmarks performance by gp-IRT, what a condition keeps of its base checkpoint, and how it answers.

No model is loaded.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.irt_artifact import read_irt
from pipeline.artifacts.scores import ITEM_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.retention.accuracy import (
    CONTINUOUS_METRICS,
    all_results,
    item_table,
    metric_rows,
    paired_test_table,
)
from pipeline.axes.retention.answers import STATISTICS, has_derivation
from pipeline.core.retention.irt import SCENARIOS, IrtScenario
from pipeline.core.retention.tasks import ALL_COLUMNS, GENERATIVE_TASKS, METRICS, WHOLE_COLUMNS
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def column_values(path: Path, scores: pd.DataFrame, column: str, scenario: IrtScenario | None) -> np.ndarray:
    """float64[n] values of one column by item; a whole benchmark has no scenario, and any number of items.

    Raises ArtifactError where an item has no value, or one that is not possible.
    """
    task, metric = ALL_COLUMNS[column]
    rows = scores[(scores["task"] == task) & (scores["metric"] == metric)].sort_values("item")
    size = max(1, len(rows)) if scenario is None else len(scenario.seen)
    if rows["item"].tolist() != list(range(size)):
        raise ArtifactError(
            f"{path} has {len(rows)} values of {task} under {metric}; "
            f"{'accuracy needs' if scenario is None else 'the item parameters need'} one for each of "
            f"the items 0 to {size - 1}"
        )
    values = rows["value"].to_numpy(dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ArtifactError(f"{path} has values of {task} under {metric} outside [0, 1]")
    if metric not in CONTINUOUS_METRICS and not np.isin(values, (0, 1)).all():
        raise ArtifactError(f"{path} has values of {task} under {metric} that are neither 0 nor 1")
    return values


def generated_answers(path: Path, scores: pd.DataFrame, task: str) -> pd.DataFrame:
    """Columns item, num_tokens (a stop token included) and derivation of the answers to a task.

    Raises ArtifactError where the details of an answer are missing.
    """
    rows = scores[(scores["task"] == task) & (scores["metric"] == METRICS[task][0])].sort_values("item")
    try:
        answers = [json.loads(text) for text in rows["details"]]
        tokens = [int(answer["num_tokens"]) for answer in answers]
        derivations = [has_derivation(answer["answer"]) for answer in answers]
    except (KeyError, ValueError) as error:
        raise ArtifactError(f"{path}: the details of an answer to {task} cannot be read ({error!r})") from None
    return pd.DataFrame({"item": rows["item"].to_numpy(), "num_tokens": tokens, "derivation": derivations})


def prompt_format(tables: dict[Path, pd.DataFrame]) -> str:
    """The form in which the items of all tables were put. Raises ArtifactError unless it is one."""
    found = {form: path for path, table in tables.items() for form in table["prompt_format"].unique()}
    if len(found) != 1:
        listed = ", ".join(f"{form} in {path}" for form, path in found.items()) or "no rows"
        raise ArtifactError(f"scores of one comparison need one prompt format; found: {listed}")
    return next(iter(found))


def main(run: StageRun, model: str, scores: Path, irt: Path, output: Path) -> None:
    """Write an evaluation; its table ``tests`` has the paired tests, without rows for the base itself."""
    evaluation, settings, tests = ModelEvaluation(run, "retention", model), run.params.retention, run.params.tests
    scenarios = read_irt(irt)
    columns = {column: task for column, (task, _) in ALL_COLUMNS.items() if task in settings.tasks}
    for column, task in columns.items():
        if column not in WHOLE_COLUMNS and SCENARIOS[task] not in scenarios:
            raise ArtifactError(f"{irt} has no item parameters for {task} (scenario {SCENARIOS[task]!r})")
    paths = dict(evaluation.paths(scores))
    tables = {path: read_table(path, ITEM_SCORE_COLUMNS) for path in paths.values()}
    asked = prompt_format(tables)
    values = {
        condition: {
            column: column_values(path, tables[path], column, scenarios.get(SCENARIOS.get(task, "")))
            for column, task in columns.items()
        }
        for condition, path in paths.items()
    }
    seed, replicates = run.params.seed, run.params.evaluate.bootstrap_replicates
    results = all_results(values, scenarios, seed=seed, model=model, replicates=replicates)
    levels = {"margin": tests.accuracy_margin, "significance": tests.significance, "seed": seed}
    for condition, own in results.items():
        base = results.get("base") if condition != "base" else None
        for row in metric_rows(own, base, settings.gsm8k):
            evaluation.add_value(condition, **row)
        evaluation.add_table(condition, "tests", paired_test_table(own, base, **levels, names=(model, condition)))
        evaluation.add_table(condition, "per_prompt", item_table(own, base))
        evaluation.results[condition]["prompt_format"] = asked
    for task in (task for task in GENERATIVE_TASKS if task in settings.tasks):
        parts = [generated_answers(path, tables[path], task).assign(condition=name) for name, path in paths.items()]
        evaluation.summarise(pd.concat(parts), STATISTICS, split=task, unit="item")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
