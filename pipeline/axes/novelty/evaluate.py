"""Mean distinct and mean utility of NoveltyBench from partitions and scores; no model is loaded."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.novelty import CLASS_COLUMNS, RATED_FIELDS, read_splits
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_json, read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.novelty.metrics import DISTINCT, UTILITY
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def metric_names(classifier: str, reward: str) -> dict[str, str]:
    """Reported names of the columns "distinct" and "utility": the paper's for the benchmark's own evaluators only."""
    own_classes = classifier == "deberta"
    return {"distinct": DISTINCT[not own_classes], "utility": UTILITY[not (own_classes and reward == "skywork")]}


def prompt_rows(prompts: Sequence[TextPrompt], scores: Path) -> pd.DataFrame:
    """One row per prompt in the prompts' order. Raises ArtifactError for a prompt without scores."""
    splits = read_splits(scores, "scores.jsonl", RATED_FIELDS)
    found = {f"{split}.{entry['id']}": entry for split, entries in splits.items() for entry in entries}
    rows = []
    for prompt in prompts:
        if prompt.prompt_id not in found:
            raise ArtifactError(f"{scores} has no scores for the prompt {prompt.prompt_id}")
        entry = found[prompt.prompt_id]
        empty = sum(not text.strip() for text in entry["generations"])
        values = (len(entry["partition_scores"]), entry["utility"], empty)
        rows.append((prompt.prompt_id, prompt.split, prompt.category, prompt.text, *values))
    columns = ["prompt_id", "split", "category", "prompt", "distinct", "utility", "num_empty"]
    return pd.DataFrame(rows, columns=columns)


def main(run: StageRun, model: str, prompts: list[Path], judged: Path, output: Path) -> None:
    """Write an evaluation with the table ``classes``."""
    evaluation, parts, evaluators = ModelEvaluation(run, "novelty", model), [], set()
    requests = read_text_prompts(*prompts)
    for condition in evaluation.conditions:
        partitions, scores = judged / condition / "partitions", judged / condition / "scores"
        classifier, reward = read_json(partitions / "counts.json"), read_json(scores / "counts.json")
        evaluators.add((classifier["classifier"], reward["reward"]))
        per_prompt = prompt_rows(requests, scores)
        for split, empty in per_prompt.groupby("split", sort=False)["num_empty"].sum().items():
            evaluation.failures[condition][split] = {"empty": int(empty)} if empty else {}
        evaluation.add_table(condition, "per_prompt", per_prompt)
        classes = read_table(scores / "classes.parquet", CLASS_COLUMNS)
        evaluation.add_table(condition, "classes", classes.drop(columns="split"))
        parts.append(per_prompt.assign(condition=condition))
    if len(evaluators) > 1:
        raise ArtifactError(f"{judged} is by different evaluators, whose figures do not compare: {sorted(evaluators)}")
    names, table = metric_names(*evaluators.pop()), pd.concat(parts)
    statistics = {metric: mean_of(column) for column, metric in names.items()}
    for split in (*dict.fromkeys(table["split"]), "all"):
        evaluation.summarise(table if split == "all" else table[table["split"] == split], statistics, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
