"""Rate the representative of every class of NoveltyBench responses.

Writes the benchmark's ``SPLIT/scores.jsonl``, the table ``classes.parquet`` with raw rewards, and
``counts.json``. Only the first response of each class counts in the utility, so only that is
rewarded.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.artifacts.atomic import atomic_directory
from pipeline.artifacts.json_lines import write_json_lines
from pipeline.artifacts.novelty import PARTITION_FIELDS, read_splits
from pipeline.artifacts.storage import read_json, write_json, write_table
from pipeline.config.evaluation import RewardConfig
from pipeline.config.models import ModelConfig
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


def likelihood_identity(settings: RewardConfig, config: ModelConfig, model_report: Path) -> dict[str, Any]:
    """All that the stand-in reward depends on beside the texts: the base checkpoint and how it is asked."""
    report = read_json(model_report)
    return {
        "kind": settings.kind,
        "checkpoint": report["revision"] or report["files_sha256"],
        "chat": asdict(config.chat),
        "terminator": report["terminator"],
        "dtype": config.dtype,
        "max_length": settings.max_length,
    }


def open_likelihood(settings: RewardConfig, config: ModelConfig, model_report: Path) -> Any:
    """The evaluated model's base checkpoint as a stand-in reward model."""
    from pipeline.engines.judges.text_judges import LikelihoodReward
    from pipeline.engines.loading.chat import answer_terminator
    from pipeline.engines.loading.conditioned_model import open_model

    opened = open_model(config, model_report)
    return LikelihoodReward(
        opened.model,
        opened.tokenizer,
        opened.encode,
        answer_terminator(opened.tokenizer, config.terminator),
        max_length=settings.max_length,
        tokens_per_pass=settings.tokens_per_pass,
    )


def evaluator(
    settings: RewardConfig, config: ModelConfig, model_report: Path
) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Identity of the configured reward model, and what opens it."""
    if settings.kind == "likelihood":
        identity = likelihood_identity(settings, config, model_report)
        return identity, lambda: open_likelihood(settings, config, model_report)
    from pipeline.engines.judges.text_judges import open_sequence_reward, reward_identity

    identity = reward_identity(settings)
    return identity, lambda: open_sequence_reward(settings, identity)


def class_rows(split: str, entry: dict[str, Any], rewards: np.ndarray, thresholds: Sequence[float]) -> list[dict]:
    """One row per class of a prompt's responses, in the order of the classes."""
    sizes = np.bincount(entry["partition"])
    return [
        {
            "prompt_id": f"{split}.{entry['id']}",
            "split": split,
            "class_index": index,
            "representative": entry["generations"][first],
            "size": int(sizes[index]),
            "reward": float(rewards[index]),
            "rating": rating(float(rewards[index]), thresholds),
        }
        for index, first in enumerate(representatives(entry["partition"]))
    ]


def main(run: StageRun, model: str, condition: str, model_report: Path, partitions: Path, output: Path) -> None:
    """Write the ratings and the utility of every prompt's responses into ``output``."""
    settings, patience = run.params.evaluate.novelty.reward, run.params.evaluate.novelty.patience
    identity, open_scorer = evaluator(settings, run.params.models[model], model_report)
    run.record.add(reward=identity)
    splits = read_splits(partitions, "partitions.jsonl", PARTITION_FIELDS)
    entries = [(split, entry) for split, rows in splits.items() for entry in rows]
    firsts = [[entry["generations"][i] for i in representatives(entry["partition"])] for _, entry in entries]
    pairs = [(entry["prompt"], text) for (_, entry), texts in zip(entries, firsts, strict=True) for text in texts]
    with resumable(run, "response", len(set(pairs))) as done:
        rewards = np.split(pair_scores(done, open_scorer)(pairs), np.cumsum([len(texts) for texts in firsts])[:-1])
        classes: list[dict] = []
        for (split, entry), values in zip(entries, rewards, strict=True):
            rows = class_rows(split, entry, values, THRESHOLDS[settings.kind])
            class_ratings = [row["rating"] for row in rows]
            ratings = generation_ratings(entry["partition"], class_ratings)
            entry |= {
                "generation_scores": ratings,
                "partition_scores": class_ratings,
                "utility": utility(ratings, patience),
            }
            classes.extend(rows)
        counts = {
            "reward": settings.kind,
            "responses": sum(len(entry["generations"]) for _, entry in entries),
            "representatives": len(pairs),
            "representatives_unique": len(set(pairs)),
        }
        with atomic_directory(output) as directory:
            for split, rows in splits.items():
                write_json_lines(directory / split / "scores.jsonl", rows)
            write_table(directory / "classes.parquet", pd.DataFrame(classes))
            write_json(directory / "counts.json", counts)
        run.write_record(num_prompts=len(entries))
    print(f"{run.title}: {counts['responses']} responses, {len(pairs)} representatives")


if __name__ == "__main__":
    command_line()
