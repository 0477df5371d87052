"""Summaries through their stages on the tiny model: a summary that is the list is no distance from it."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.axes.registry import METRICS
from pipeline.axes.selfreflect.summaries import SUMMARIES, WRITTEN, answer_list
from pipeline.errors import ArtifactError
from tests.composition import write_changed
from tests.stages.conftest import Dag
from tests.stages.dvc.test_code_reach import uncovered

pytestmark = pytest.mark.slow
STAGES = [
    *(f"{stage}@embedded-base" for stage in ("request-summaries", "generate-selfreflect", "score-selfreflect")),
    "eval-selfreflect@embedded",
]
ANSWERS = ["lion", "owl", "lion", None, "the owl", "lion"]


@pytest.fixture(scope="module")
def summarised(tiny_params, tmp_path_factory) -> Dag:
    """A DAG of its own with three questions and answers that are given."""
    directory = tmp_path_factory.mktemp("summarised")
    values = yaml.safe_load(tiny_params.read_text())
    values |= {"artifacts": str(directory / "artifacts"), "axes": ["selfreflect"], "conditions": ["base"]}
    values["prompts"]["questions"]["max_prompts"] = 3
    values["generate"]["questions"]["num_samples"] = len(ANSWERS)
    values["generate"]["selfreflect"] |= {"num_samples": 2, "max_new_tokens": 5}
    values["selfreflect"]["test_answers"] = 2
    (directory / "params.yaml").write_text(yaml.safe_dump(values))
    dag = Dag(directory / "params.yaml")
    dag.run("build-prompts", "check-model@embedded")
    dag.pass_preflight()
    names = pd.read_parquet(dag.path("build-prompts-questions"))["prompt_id"]
    rows = [
        (name, "default", index, answer, answer, answer or "(no answer)", 1)
        for name in names
        for index, answer in reversed(list(enumerate(ANSWERS)))
    ]
    partition = dag.path("partition-questions@embedded-base")
    partition.parent.mkdir(parents=True)
    columns = ["prompt_id", "setting", "sample_index", "answer", "spelling", "label", "num_tokens"]
    pd.DataFrame(rows, columns=columns).to_parquet(partition)
    replies = [(name, "default", index, 0, answer or "", 1, "stop") for name, _, index, answer, *_ in rows]
    columns = ["prompt_id", "setting", "sample_index", "seed", "text", "num_tokens", "finish_reason"]
    generations = dag.path("generate-questions@embedded-base")
    generations.parent.mkdir(parents=True)
    pd.DataFrame(replies, columns=columns).to_parquet(generations)
    dag.profiles = {}
    dag.run(*STAGES)
    assert uncovered(dag.profiles) == {}
    dag.profiles = None
    return dag


def test_requests_show_the_answers_of_the_list_alone(summarised):
    requests = pd.read_parquet(summarised.path(STAGES[0])).set_index("prompt_id")
    assert len(requests) == 6 and set(requests["split"]) == set(WRITTEN)
    sampled, direct = (requests[requests["split"] == kind]["prompt"] for kind in WRITTEN)
    shown = answer_list(["lion", "owl", "lion", "(no answer)"])
    assert sampled.str.contains(f"{shown}\n\n", regex=False).all() and not direct.str.contains("lion").any()


def test_every_summary_is_judged_on_every_hidden_word(summarised):
    scores = pd.read_parquet(summarised.path(STAGES[2]))
    # One content word in each of two answers, and of what the model writes two summaries.
    sizes = scores.groupby(["prompt_id", "summary"]).size().unstack()
    assert len(sizes) == 3 and (sizes[[*WRITTEN, "null"]] == 4).all(axis=None) and (sizes["perfect"] == 2).all()
    assert set(zip(scores["answer"], scores["word"], strict=True)) == {("the owl", "owl"), ("lion", "lion")}
    assert scores["distance"].between(0, 1).all() and (scores["distance"] > 0).mean() > 0.9
    metrics = json.loads((summarised.evals("selfreflect", "base") / "metrics.json").read_text())["metrics"]
    found = {row["metric"]: row for row in metrics}
    assert set(found) == {name for name, metric in METRICS.items() if metric.axis == "selfreflect"}
    assert found["selfreflect_sampled"]["n"] == 3
    for summary in SUMMARIES:
        mean = scores[scores["summary"] == summary].groupby("prompt_id")["distance"].mean().mean()
        assert found[f"selfreflect_{summary}"]["value"] == pytest.approx(mean)


def test_a_summary_that_is_the_list_is_no_distance_from_it(summarised, tmp_path):
    generations = pd.read_parquet(summarised.generations("base", "selfreflect"))
    listed = answer_list(["lion", "owl", "lion", "(no answer)"])
    generations.assign(text=f"<think>so many</think>\n{listed}\n").to_parquet(tmp_path / "lists.parquet")
    summarised.run(STAGES[2], generations=tmp_path / "lists.parquet", output=tmp_path / "scores.parquet")
    means = pd.read_parquet(tmp_path / "scores.parquet").groupby("summary")["distance"].mean()
    # All questions have the same answers: the null is the list, too.
    assert means[["sampled", "direct", "null"]].abs().max() == 0 < means["perfect"]


def test_the_judge_may_be_another_model(summarised, tmp_path):
    model = yaml.safe_load(summarised.params.read_text())["models"]["embedded"]
    params = write_changed(summarised.params, tmp_path / "params.yaml", selfreflect__judge=model)
    Dag(params).run(STAGES[2], output=tmp_path / "scores.parquet")
    same, base = (pd.read_parquet(path) for path in (tmp_path / "scores.parquet", summarised.path(STAGES[2])))
    np.testing.assert_allclose(same["distance"], base["distance"])


def test_one_question_is_too_few(summarised, tmp_path):
    prompts = pd.read_parquet(summarised.path("build-prompts-questions"))
    prompts.head(1).to_parquet(tmp_path / "one.parquet")
    with pytest.raises(ArtifactError, match="has one question; the axis selfreflect needs two at least"):
        summarised.run(STAGES[0], prompts=tmp_path / "one.parquet", output=tmp_path / "out.parquet")
