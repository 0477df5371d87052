"""TinyBenchmarks performance by gp-IRT, what a condition keeps of its base checkpoint, and how it answers."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.artifacts.irt_artifact import read_irt
from pipeline.artifacts.scores import ITEM_SCORE_COLUMNS
from pipeline.artifacts.storage import read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.retention.accuracy import CONTINUOUS_METRICS, split_statistics
from pipeline.axes.retention.answers import STATISTICS, has_derivation
from pipeline.core.retention.irt import SCENARIOS, IrtScenario
from pipeline.core.retention.tasks import ALL_COLUMNS, GENERATIVE_TASKS, METRICS, WHOLE_COLUMNS
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def column_values(path: Path, scores: pd.DataFrame, column: str, scenario: IrtScenario | None) -> np.ndarray:
    """float64[n] values of one column by item; a whole benchmark has no scenario, and any number of items."""
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
    """Columns item, num_tokens (a stop token included) and derivation of the answers to a task."""
    rows = scores[(scores["task"] == task) & (scores["metric"] == METRICS[task][0])].sort_values("item")
    try:
        answers = [json.loads(text) for text in rows["details"]]
        tokens = [int(answer["num_tokens"]) for answer in answers]
        derivations = [has_derivation(answer["answer"]) for answer in answers]
    except (KeyError, ValueError) as error:
        raise ArtifactError(f"{path}: the details of an answer to {task} cannot be read ({error!r})") from None
    return pd.DataFrame({"item": rows["item"].to_numpy(), "num_tokens": tokens, "derivation": derivations})


def prompt_format(tables: dict[Path, pd.DataFrame]) -> str:
    """The one form in which the items of all tables were put."""
    forms = {form: path for path, table in tables.items() for form in table["prompt_format"].unique()}
    if len(forms) != 1:
        listed = ", ".join(f"{form} in {path}" for form, path in forms.items()) or "no rows"
        raise ArtifactError(f"scores of one comparison need one prompt format; found: {listed}")
    return next(iter(forms))


def main(run: StageRun, model: str, scores: Path, irt: Path, output: Path) -> None:
    """Write an evaluation."""
    evaluation = ModelEvaluation(run, "retention", model)
    tasks, scenarios = run.params.retention.tasks, read_irt(irt)
    columns = {column: task for column, (task, _) in ALL_COLUMNS.items() if task in tasks}
    for column, task in columns.items():
        if column not in WHOLE_COLUMNS and SCENARIOS[task] not in scenarios:
            raise ArtifactError(f"{irt} has no item parameters for {task} (scenario {SCENARIOS[task]!r})")
    paths = dict(evaluation.paths(scores))
    tables = {path: read_table(path, ITEM_SCORE_COLUMNS) for path in paths.values()}
    asked = prompt_format(tables)
    parts = []
    for condition, path in paths.items():
        evaluation.results[condition]["prompt_format"] = asked
        for column, task in columns.items():
            values = column_values(path, tables[path], column, scenarios.get(SCENARIOS.get(task, "")))
            items = {"item": np.arange(len(values)), "value": values}
            parts.append(pd.DataFrame({"condition": condition, "split": column, "task": task, **items}))
    values = pd.concat(parts, ignore_index=True)
    evaluation.add_tables("per_prompt", values.drop(columns="task"))
    # A row for each item, so that both readings of an answer are resampled together.
    items = values.pivot(index=["condition", "task", "item"], columns="split", values="value")[[*columns]]
    rows = items.reset_index()
    rows["name"] = rows["task"] + "/" + rows["item"].astype(str)
    for split, (members, statistics) in split_statistics(list(columns), scenarios).items():
        own = rows[rows["task"].isin([columns[column] for column in members])]
        evaluation.summarise(own, statistics, split=split, unit="name", strata="task")
    for task in (task for task in GENERATIVE_TASKS if task in tasks):
        parts = [generated_answers(path, tables[path], task).assign(condition=name) for name, path in paths.items()]
        evaluation.summarise(pd.concat(parts), STATISTICS, split=task, unit="item")
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
