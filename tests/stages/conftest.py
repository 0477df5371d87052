"""The stages' own functions in DAG order, on the tiny model."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.config.params import load_params
from pipeline.stages import (
    build_novelty_prompts,
    build_prompts,
    build_tries,
    check_model,
    discretize,
    eval_mcq,
    eval_novelty,
    eval_open,
    eval_paloma,
    eval_retention,
    eval_structured,
    exact_structured,
    floor_structured,
    generate,
    import_irt,
    partition_novelty,
    report,
    reward_novelty,
    score_open,
    score_paloma,
    score_retention,
    score_structured,
    train_hard,
    train_soft,
)
from tests.report.conftest import drawn_here
from tests.stages.preloaded_python import preloaded_python

__all__ = ["drawn_here"]


@dataclass
class Dag:
    """Artifact paths and one method per stage."""

    params: Path
    root: Path

    @property
    def prompts(self) -> list[Path]:
        return [self.root / "prompts" / "unseen.parquet", self.root / "prompts" / "ood.parquet"]

    @property
    def model(self) -> dict:
        return {"params": self.params, "model": "embedded", "model_report": self.root / "models" / "embedded.json"}

    def prepare(self) -> None:
        train = self.root / "prompts" / "train.parquet"
        build_prompts.main(self.params, self.root / "prompts")
        build_novelty_prompts.main(self.params, self.root / "prompts" / "novelty.parquet")
        for space, sources in (("soft", [train]), ("hard", [train]), ("eval", self.prompts)):
            discretize.main(self.params, space, sources, self.root / "output_spaces" / f"{space}.parquet")
        check_model.main(self.params, "embedded", self.prompts[1], self.model["model_report"])
        for space in ("soft", "eval"):
            spaces = self.root / "output_spaces" / f"{space}.parquet"
            output = self.root / "tries" / "embedded" / space
            build_tries.main(**self.model, space=space, source=spaces, output=output)

    def train(self, method: str) -> None:
        common = {
            **self.model,
            "prompts": self.root / "prompts" / "train.parquet",
            "output": self.root / "adapters" / "embedded" / method,
            "checkpoint": self.root / "unfinished" / method,
        }
        if method == "soft":
            train_soft.main(**common, tries=self.root / "tries" / "embedded" / "soft")
        else:
            train_hard.main(**common, targets=self.root / "output_spaces" / "hard.parquet")

    def condition(self, condition: str) -> dict:
        return {**self.model, "condition": condition, "adapters": self.root / "adapters" / "embedded"}

    def axis_prompts(self, axis: str) -> list[Path]:
        return self.prompts if axis == "structured" else [self.root / "prompts" / f"{axis}.parquet"]

    def generations(self, condition: str, axis: str = "structured") -> Path:
        return self.root / "generations" / axis / "embedded" / f"{condition}.parquet"

    def generate(self, condition: str, axis: str = "structured", constraint: Path | None = None) -> None:
        generate.main(
            **self.condition(condition),
            axis=axis,
            prompts=self.axis_prompts(axis),
            constraint=constraint,
            output=self.generations(condition, axis),
            partial=self.root / "unfinished" / f"generate-{axis}-{condition}",
        )

    def evals(self, axis: str, condition: str) -> Path:
        return self.root / "evals" / axis / "embedded" / condition

    def scores(self, condition: str) -> Path:
        return self.root / "scores" / "structured" / "embedded" / f"{condition}.parquet"

    def score(self, condition: str) -> None:
        score_structured.main(
            **self.condition(condition),
            prompts=self.prompts,
            tries=self.root / "tries" / "embedded" / "eval",
            output=self.scores(condition),
            partial=self.root / "unfinished" / f"score-{condition}",
        )

    def exact(self, condition: str) -> Path:
        return self.root / "exact" / "structured" / "embedded" / f"{condition}.parquet"

    def exact_cdf(self, condition: str) -> Path:
        return self.exact(condition).with_suffix(".cdf.parquet")

    def compute(self, condition: str) -> None:
        exact_structured.main(
            **self.condition(condition),
            prompts=self.prompts,
            tries=self.root / "tries" / "embedded" / "eval",
            output=self.exact(condition),
            partial=self.root / "unfinished" / f"exact-{condition}",
            cdf=self.exact_cdf(condition),
        )

    def floors(self) -> Path:
        path = self.root / "floors" / "structured.parquet"
        if not path.exists():
            floor_structured.main(self.params, self.prompts, path)
        return path

    def evaluate_structured_samples(self, condition: str) -> Path:
        eval_structured.main(
            self.params,
            "embedded",
            condition,
            self.prompts,
            self.generations(condition),
            self.floors(),
            self.evals("structured", condition),
        )
        return self.evals("structured", condition)

    def evaluate_baseline(self, condition: str) -> Path:
        self.generate(condition)
        return self.evaluate_structured_samples(condition)

    def evaluate_open(self, condition: str, scored: bool = True) -> None:
        self.generate(condition, "open")
        scores = self.root / "scores" / "open" / "embedded" / f"{condition}.parquet" if scored else None
        prompts = self.axis_prompts("open")
        if scored:
            score_open.main(**self.condition(condition), prompts=prompts, output=scores)
        generations, output = self.generations(condition, "open"), self.evals("open", condition)
        eval_open.main(self.params, "embedded", condition, prompts, generations, output, scores)

    def evaluate_mcq(self, condition: str) -> None:
        self.generate(condition, "mcq")
        eval_mcq.main(
            self.params,
            "embedded",
            condition,
            self.axis_prompts("mcq"),
            self.generations(condition, "mcq"),
            self.evals("mcq", condition),
        )

    def evaluate_novelty(self, condition: str) -> None:
        self.generate(condition, "novelty")
        prompts, root = self.axis_prompts("novelty"), self.root / "novelty" / "embedded" / condition
        cache = self.root / "cache" / "novelty_scores.sqlite"
        partition_novelty.main(
            self.params,
            "embedded",
            condition,
            prompts,
            self.generations(condition, "novelty"),
            cache,
            root / "partitions",
        )
        reward_novelty.main(
            **self.model, condition=condition, partitions=root / "partitions", cache=cache, output=root / "scores"
        )
        eval_novelty.main(
            self.params,
            "embedded",
            condition,
            prompts,
            root / "partitions",
            root / "scores",
            self.evals("novelty", condition),
        )

    def evaluate_retention(self, condition: str) -> None:
        irt, scores = self.root / "retention" / "irt.npz", self.root / "scores" / "retention" / "embedded"
        if not irt.exists():
            import_irt.main(self.params, irt)
        output, partial = scores / f"{condition}.parquet", self.root / "unfinished" / f"retention-{condition}"
        score_retention.main(**self.condition(condition), output=output, partial=partial)
        eval_retention.main(
            self.params, "embedded", condition, output, scores / "base.parquet", irt, self.evals("retention", condition)
        )

    def evaluate_paloma(self, condition: str) -> None:
        scores = self.root / "scores" / "paloma" / "embedded"
        output, partial = scores / f"{condition}.parquet", self.root / "unfinished" / f"paloma-{condition}"
        score_paloma.main(**self.condition(condition), output=output, partial=partial)
        eval_paloma.main(
            self.params, "embedded", condition, output, scores / "base.parquet", self.evals("paloma", condition)
        )

    def evaluate(self, condition: str) -> Path:
        output = self.evals("structured", condition)
        eval_structured.main(
            self.params,
            "embedded",
            condition,
            self.prompts,
            self.generations(condition),
            self.floors(),
            output,
            self.scores(condition),
            self.exact(condition),
            self.exact_cdf(condition),
        )
        return output

    def report(self, output: Path) -> None:
        report.main(self.params, [self.root / "evals"], self.prompts, output)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    """Variables of processes whose ``python`` starts with the libraries loaded, which takes longer than a stage."""
    variables = os.environ | {
        "WANDB_MODE": "disabled",
        "HF_HUB_OFFLINE": "1",
        "DVC_NO_ANALYTICS": "1",
        **{f"GIT_{who}_{what}": "n" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    with preloaded_python(tmp_path_factory.mktemp("python"), variables) as directory:
        path = os.pathsep.join([str(directory), str(Path(sys.executable).parent), os.environ["PATH"]])
        yield variables | {"PATH": path}


@pytest.fixture(scope="session")
def dag(tiny_params) -> Dag:
    """Everything up to the evaluations, run once."""
    dag = Dag(tiny_params, Path(load_params(tiny_params).artifacts))
    dag.prepare()
    for method in ("soft", "hard"):
        dag.train(method)
    for condition in ("base", "soft", "hard"):
        dag.generate(condition)
        dag.score(condition)
        dag.compute(condition)
        dag.evaluate(condition)
        dag.evaluate_open(condition)
        dag.evaluate_mcq(condition)
        dag.evaluate_novelty(condition)
        dag.evaluate_retention(condition)
        dag.evaluate_paloma(condition)
    dag.evaluate_baseline("ssot")
    dag.evaluate_open("ssot", scored=False)
    return dag
