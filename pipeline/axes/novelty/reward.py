"""Rate the first response of every class of NoveltyBench responses, which alone counts in the utility: the benchmark's
``SPLIT/scores.jsonl``, and ``classes.parquet`` with raw rewards."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.json_lines import write_json_lines
from pipeline.artifacts.novelty import PARTITION_FIELDS, read_splits
from pipeline.artifacts.storage import write_json, write_table
from pipeline.core.language.novelty import (
    LIKELIHOOD_RATING_THRESHOLDS,
    RATING_THRESHOLDS,
    generation_ratings,
    rating,
    representatives,
    utility,
)
from pipeline.dag.execution import StageRun, command_line
from pipeline.stages.resumable import pair_scores, resumable

THRESHOLDS = {"skywork": RATING_THRESHOLDS, "likelihood": LIKELIHOOD_RATING_THRESHOLDS}


def main(run: StageRun, model: str, condition: str, model_report: Path, partitions: Path, output: Path) -> None:
    """Write the ratings and the utility of every prompt's responses into ``output``."""
    from pipeline.engines.judges.text_judges import LikelihoodReward, open_sequence_reward, reward_identity
    from pipeline.engines.loading.chat import answer_terminator
    from pipeline.engines.loading.conditioned_model import open_model

    settings, patience = run.params.evaluate.novelty.reward, run.params.evaluate.novelty.patience
    stand_in = settings.kind == "likelihood"
    identity = {"kind": settings.kind} if stand_in else reward_identity(settings)
    run.record.add(reward=identity)

    def open_scorer() -> Any:
        if not stand_in:
            return open_sequence_reward(settings, identity)
        config = run.params.models[model]
        opened = open_model(config, model_report)
        terminator = answer_terminator(opened.tokenizer, config.terminator)
        limits = {"max_length": settings.max_length, "tokens_per_pass": settings.tokens_per_pass}
        return LikelihoodReward(opened.model, opened.tokenizer, opened.encode, terminator, **limits)

    splits = read_splits(partitions, "partitions.jsonl", PARTITION_FIELDS)
    entries = [(split, entry) for split, rows in splits.items() for entry in rows]
    texts = [[entry["generations"][first] for first in representatives(entry["partition"])] for _, entry in entries]
    pairs = [(entry["prompt"], text) for (_, entry), own in zip(entries, texts, strict=True) for text in own]
    with resumable(run, "response", len(set(pairs))) as done:
        rewards = np.split(pair_scores(done, open_scorer)(pairs), np.cumsum(list(map(len, texts)))[:-1])
        classes = []
        for (split, entry), own, values in zip(entries, texts, rewards, strict=True):
            ratings = [rating(float(value), THRESHOLDS[settings.kind]) for value in values]
            columns = {
                "prompt_id": f"{split}.{entry['id']}",
                "split": split,
                "class_index": range(len(values)),
                "representative": own,
                "size": np.bincount(entry["partition"]),
                "reward": values,
                "rating": ratings,
            }
            classes.append(pd.DataFrame(columns))
            entry["generation_scores"] = generation_ratings(entry["partition"], ratings)
            entry["partition_scores"] = ratings
            entry["utility"] = utility(entry["generation_scores"], patience)
        with atomic_directory(output) as directory:
            for split, rows in splits.items():
                write_json_lines(directory / split / "scores.jsonl", rows)
            write_table(directory / "classes.parquet", pd.concat(classes, ignore_index=True))
            write_json(directory / "counts.json", {"reward": settings.kind})
        run.write_record(num_prompts=len(entries))
    print(f"{run.title}: {len(pairs)} representatives of {len(entries)} prompts")


if __name__ == "__main__":
    command_line()
