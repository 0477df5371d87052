"""Partition, reward and evaluation of NoveltyBench: files, counts, resuming, and the names of the figures."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.artifacts.prompts import write_text_prompts
from pipeline.artifacts.storage import read_json, read_table, write_json
from pipeline.core.language.novelty import LIKELIHOOD_RATING_THRESHOLDS, rating
from pipeline.core.prompts.text import TextPrompt
from pipeline.engines.loading.model import checkpoint_files
from pipeline.errors import ArtifactError
from tests.composition import write_changed
from tests.stages.conftest import run_stage, write_generations
from tests.stand_ins.evaluators import WORDS, save_classifier, save_reward_model

PROMPTS = [
    TextPrompt("curated.c-0", "curated", "Creativity", "Name a city."),
    TextPrompt("curated.c-1", "curated", "Factual Knowledge", "Name a river."),
    TextPrompt("wildchat.w-0", "wildchat", "", "Write a message of several words."),
]
LONG = ["the cat and the dog of the city", "The cat, and the dog of the city!", "one two three four five six seven"]
TEXTS = {
    PROMPTS[0].prompt_id: ["Oslo", "Rome", "oslo", "", "Rome"],
    PROMPTS[1].prompt_id: [LONG[0], LONG[2], LONG[1], LONG[0], "Nile"],
    PROMPTS[2].prompt_id: [LONG[2], LONG[2], LONG[2], LONG[2], "yes " + LONG[0]],
}


class Novelty:
    """Paths and stage calls of one model and condition under ``params``."""

    def __init__(self, params, root, evaluators=None):
        values = yaml.safe_load(params.read_text())
        values["conditions"] = ["soft"]
        for name, changes in (evaluators or {}).items():
            values["evaluate"]["novelty"][name] |= changes
        self.params, self.root = root / "params.yaml", root
        root.mkdir(parents=True, exist_ok=True)
        self.params.write_text(yaml.safe_dump(values))
        self.prompts, self.generations = [root / "prompts.parquet"], root / "generations.parquet"
        self.judged, self.output = root / "judged", root / "evaluation" / "soft"
        self.partitions, self.scores = self.judged / "soft" / "partitions", self.judged / "soft" / "scores"
        self.report = root / "model.json"
        files = checkpoint_files(Path(values["models"]["embedded"]["checkpoint"]))
        self.report.write_text(json.dumps({"revision": None, "files_sha256": files, "terminator": "<|im_end|>"}))
        write_text_prompts(self.prompts[0], PROMPTS)
        # The table's order is not the samples'.
        write_generations(self.generations, TEXTS, reverse=True)

    def partition(self):
        paths = {"prompts": self.prompts, "generations": self.generations}
        run_stage(self.params, "partition-novelty@embedded-soft", **paths, output=self.partitions)

    def reward(self):
        paths = {"model_report": self.report, "partitions": self.partitions}
        run_stage(self.params, "reward-novelty@embedded-soft", **paths, output=self.scores)

    def evaluate(self):
        paths = {"prompts": self.prompts, "judged": self.judged}
        run_stage(self.params, "eval-novelty@embedded", **paths, output=self.output.parent)
        rows = read_json(self.output / "metrics.json")["metrics"]
        return {(row["split"], row["metric"]): row for row in rows}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def stand_ins(tiny_params, tmp_path_factory):
    novelty = Novelty(tiny_params, tmp_path_factory.mktemp("novelty") / "lexical")
    novelty.partition()
    novelty.reward()
    return novelty, novelty.evaluate()


def test_the_files_are_the_benchmarks(stand_ins):
    # Its summary is read with pandas: number of ratings and mean utility.
    novelty, metrics = stand_ins
    keys = ["id", "prompt", "model", "generations"]
    added = ["partition", "distinct"], ["generation_scores", "partition_scores", "utility"]
    for split, ids in (("curated", ["c-0", "c-1"]), ("wildchat", ["w-0"])):
        generations = lines(novelty.partitions / split / "generations.jsonl")
        assert [row["id"] for row in generations] == ids and all(list(row) == keys for row in generations)
        assert all(row["generations"] == TEXTS[f"{split}.{row['id']}"] for row in generations)
        partitions = lines(novelty.partitions / split / "partitions.jsonl")
        assert all(list(row) == [*keys, *added[0]] for row in partitions)
        scores = lines(novelty.scores / split / "scores.jsonl")
        assert all(list(row) == [*keys, *added[0], *added[1]] for row in scores)
    scores = pd.read_json(novelty.scores / "curated" / "scores.jsonl", lines=True)
    assert scores["partition_scores"].map(len).mean() == metrics["curated", "distinct_lexical"]["value"]
    assert scores["utility"].mean() == pytest.approx(metrics["curated", "utility_stand_in"]["value"])


def test_partition_by_hand(stand_ins):
    novelty, _ = stand_ins
    rows = lines(novelty.partitions / "curated" / "partitions.jsonl")
    assert rows[0]["partition"] == [0, 1, 0, 2, 1] and rows[1]["partition"] == [0, 1, 0, 0, 2]
    # Seven of eight words in common with LONG[0] are nothing in common with LONG[2].
    assert lines(novelty.partitions / "wildchat" / "partitions.jsonl")[0]["partition"] == [0, 0, 0, 0, 1]


def test_stand_ins_have_names_of_their_own(stand_ins):
    novelty, metrics = stand_ins
    assert {metric for _, metric in metrics} == {"distinct_lexical", "utility_stand_in"}
    assert metrics["curated", "distinct_lexical"]["value"] == 3.0
    assert metrics["all", "distinct_lexical"]["value"] == pytest.approx(8 / 3)
    assert metrics["all", "utility_stand_in"]["n"] == 3
    assert read_json(novelty.output / "metrics.json")["failures"] == {"curated": {"empty": 1}, "wildchat": {}}
    per_prompt = read_table(novelty.output / "per_prompt.parquet", ("prompt_id", "distinct"))
    assert per_prompt["prompt_id"].tolist() == [prompt.prompt_id for prompt in PROMPTS]
    assert per_prompt["distinct"].tolist() == [3, 3, 2]


@pytest.fixture(scope="module")
def evaluators(tmp_path_factory):
    root = tmp_path_factory.mktemp("evaluators")
    deberta, gemma = str(save_classifier(root / "deberta")), str(save_reward_model(root / "gemma2"))
    return {
        "classifier": {
            "kind": "deberta",
            "checkpoint": deberta,
            "tokenizer": deberta,
            "threshold": 0.5,
            "tokens_per_pass": 60,
        },
        "reward": {"kind": "skywork", "checkpoint": gemma},
    }


def test_models_of_the_benchmarks_kind(tiny_params, tmp_path, evaluators):
    novelty = Novelty(tiny_params, tmp_path / "models", evaluators)
    rng, words = np.random.default_rng(0), WORDS.split()
    texts = {p.prompt_id: [" ".join(rng.choice(words, size=rng.integers(6, 14))) for _ in range(8)] for p in PROMPTS}
    write_generations(novelty.generations, texts, reverse=True)
    novelty.partition()
    novelty.reward()
    metrics = novelty.evaluate()
    classes = read_table(novelty.output / "classes.parquet", ("prompt_id", "rating", "reward"))
    assert classes["rating"].tolist() == [rating(reward) for reward in classes["reward"]]
    assert classes["rating"].tolist() != [rating(r, LIKELIHOOD_RATING_THRESHOLDS) for r in classes["reward"]]
    assert classes.groupby("prompt_id")["rating"].nunique().max() > 1
    assert {metric for _, metric in metrics} == {"distinct", "utility"}


def test_missing_rows_are_named(tiny_params, tmp_path):
    novelty = Novelty(tiny_params, tmp_path / "x")
    write_generations(novelty.generations, {key: texts for key, texts in TEXTS.items() if key != "curated.c-1"})
    with pytest.raises(ArtifactError, match=r"generations.parquet has no rows for the prompt curated.c-1"):
        novelty.partition()
    novelty.partitions.mkdir(parents=True)
    with pytest.raises(ArtifactError, match=r"has no split with partitions.jsonl"):
        novelty.reward()


def test_figures_of_different_evaluators_and_missing_ones_are_refused(tiny_params, tmp_path):
    novelty = Novelty(tiny_params, tmp_path / "x")
    novelty.partition()
    novelty.reward()
    shutil.copytree(novelty.judged / "soft", novelty.judged / "base")
    write_changed(novelty.params, novelty.params, conditions=["base", "soft"])
    metrics = novelty.evaluate()
    assert metrics["all", "utility_stand_in"]["change"] == 0
    counts = novelty.scores / "counts.json"
    write_json(counts, {"reward": "skywork"})
    with pytest.raises(ArtifactError, match=r"judged is by different evaluators, .*likelihood.*skywork"):
        novelty.evaluate()
    write_json(counts, {"reward": "likelihood"})
    path = novelty.scores / "curated" / "scores.jsonl"
    path.write_text(json.dumps(lines(path)[0]) + "\n")
    with pytest.raises(ArtifactError, match="has no scores for the prompt curated.c-1"):
        novelty.evaluate()
