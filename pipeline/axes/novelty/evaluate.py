"""Mean distinct and mean utility of NoveltyBench from partitions and scores; no model is loaded.

The paper's metric names are for the benchmark's own evaluators. With a stand-in the figures are
called ``distinct_lexical`` and ``utility_stand_in`` everywhere, the summary files included.
"""

from pathlib import Path

import pandas as pd

from pipeline.artifacts.novelty import CLASS_COLUMNS, RATED_FIELDS, read_splits
from pipeline.artifacts.prompts import read_text_prompts
from pipeline.artifacts.storage import read_json, read_table
from pipeline.axes.novelty.aggregate import call_rows, metric_names, split_rows
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError
from pipeline.stages.evaluation_output import write_evaluation


def prompt_rows(prompts: list[Path], scores: Path) -> pd.DataFrame:
    """One row per prompt in the prompts' order. Raises ArtifactError for a prompt without scores."""
    found = {
        f"{split}.{entry['id']}": entry
        for split, entries in read_splits(scores, "scores.jsonl", RATED_FIELDS).items()
        for entry in entries
    }
    rows = []
    for prompt in read_text_prompts(*prompts):
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


def main(
    run: StageRun, model: str, condition: str, prompts: list[Path], partitions: Path, scores: Path, output: Path
) -> None:
    """Write metrics, the tables ``per_prompt`` and ``classes``, and ``SPLIT/summary.json`` into ``output``."""
    seed, replicates = run.params.seed, run.params.evaluate.bootstrap_replicates
    classifier, reward = read_json(partitions / "counts.json"), read_json(scores / "counts.json")
    names = metric_names(classifier["classifier"], reward["reward"])
    per_prompt = prompt_rows(prompts, scores)
    classes = read_table(scores / "classes.parquet", CLASS_COLUMNS)
    order = {prompt_id: place for place, prompt_id in enumerate(per_prompt["prompt_id"])}
    classes = classes.assign(place=classes["prompt_id"].map(order)).sort_values(
        ["place", "rating", "reward", "class_index"], ascending=[True, False, False, True]
    )
    metrics, failures, summaries = [], {}, {}
    for split in (*dict.fromkeys(per_prompt["split"]), "all"):
        members = per_prompt if split == "all" else per_prompt[per_prompt["split"] == split]
        labels = {"axis": "novelty", "model": model, "condition": condition, "split": split}
        rows = split_rows(members, names, seed=seed, stream=tuple(labels.values()), bootstrap_replicates=replicates)
        if split != "all":
            summaries[f"{split}/summary.json"] = {f"mean_{row['metric']}": row["value"] for row in rows}
            failures[split] = {"empty": empty} if (empty := int(members["num_empty"].sum())) else {}
        else:
            rows += call_rows(classifier, reward)
        metrics.extend({**labels, **row} for row in rows)
    write_evaluation(
        run,
        output,
        metrics=metrics,
        failures=failures,
        per_prompt=per_prompt,
        tables={"classes": classes.drop(columns=["place", "split"])},
        documents=summaries,
    )


if __name__ == "__main__":
    command_line()
