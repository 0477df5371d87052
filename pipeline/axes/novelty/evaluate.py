"""Mean distinct and mean utility of NoveltyBench from partitions and scores; no model is loaded.

The paper's metric names are for the benchmark's own evaluators. With a stand-in the figures are
called ``distinct_lexical`` and ``utility_stand_in`` everywhere, the summary files included.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pipeline.artifacts.novelty import CLASS_COLUMNS, RATED_FIELDS, read_splits
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_json, read_table
from pipeline.axes.evaluation import ModelEvaluation
from pipeline.axes.novelty.aggregate import call_figures, metric_names
from pipeline.core.prompts.text import TextPrompt
from pipeline.core.statistics.summarise import mean_of
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError


def prompt_rows(prompts: Sequence[TextPrompt], scores: Path) -> pd.DataFrame:
    """One row per prompt in the prompts' order. Raises ArtifactError for a prompt without scores."""
    found = {
        f"{split}.{entry['id']}": entry
        for split, entries in read_splits(scores, "scores.jsonl", RATED_FIELDS).items()
        for entry in entries
    }
    rows = []
    for prompt in prompts:
        if prompt.prompt_id not in found:
            raise ArtifactError(f"{scores} has no scores for the prompt {prompt.prompt_id}")
        entry = found[prompt.prompt_id]
        rows.append(
            {
                "prompt_id": prompt.prompt_id,
                "split": prompt.split,
                "category": prompt.category,
                "prompt": prompt.text,
                "num_generations": len(entry["generations"]),
                "num_empty": sum(not t.strip() for t in entry["generations"]),
                "distinct": len(entry["partition_scores"]),
                "utility": entry["utility"],
            }
        )
    return pd.DataFrame(rows)


def ranked_classes(prompts: Sequence[TextPrompt], scores: Path) -> pd.DataFrame:
    """The classes of each prompt in the prompts' order, best first."""
    classes = read_table(scores / "classes.parquet", CLASS_COLUMNS)
    place = classes["prompt_id"].map({prompt.prompt_id: place for place, prompt in enumerate(prompts)})
    order = ["place", "rating", "reward", "class_index"]
    ranked = classes.assign(place=place).sort_values(order, ascending=[True, False, False, True])
    return ranked.drop(columns=["place", "split"])


def main(run: StageRun, model: str, prompts: list[Path], judged: Path, output: Path) -> None:
    """Write an evaluation with the table ``classes`` and ``SPLIT/summary.json``.

    Raises:
        ArtifactError: A prompt has no scores, or conditions were judged by different evaluators.
    """
    evaluation, parts, evaluators = ModelEvaluation(run, "novelty", model), [], set()
    requests = read_text_prompts(*prompts)
    for condition in evaluation.conditions:
        partitions, scores = judged / condition / "partitions", judged / condition / "scores"
        classifier, reward = read_json(partitions / "counts.json"), read_json(scores / "counts.json")
        evaluators.add((classifier["classifier"], reward["reward"]))
        names = metric_names(classifier["classifier"], reward["reward"])
        per_prompt = prompt_rows(requests, scores)
        for split, own in per_prompt.groupby("split", sort=False):
            evaluation.failures[condition][split] = {"empty": empty} if (empty := int(own["num_empty"].sum())) else {}
            means = {f"mean_{metric}": float(own[column].mean()) for column, metric in names.items()}
            evaluation.documents[condition][f"{split}/summary.json"] = means
        for metric, value in call_figures(classifier, reward).items():
            evaluation.add_value(condition, metric, value, n=1)
        evaluation.add_table(condition, "per_prompt", per_prompt)
        evaluation.add_table(condition, "classes", ranked_classes(requests, scores))
        parts.append(per_prompt.assign(condition=condition))
    if len(evaluators) > 1:
        raise ArtifactError(f"{judged} is by different evaluators, whose figures do not compare: {sorted(evaluators)}")
    table, statistics = pd.concat(parts), {metric: mean_of(column) for column, metric in names.items()}
    for split in (*dict.fromkeys(table["split"]), "all"):
        evaluation.summarise(table if split == "all" else table[table["split"] == split], statistics, split=split)
    evaluation.write(output)


if __name__ == "__main__":
    command_line()
