"""The stages' own functions in DAG order, on the tiny model."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.config import load_params
from pipeline.stages import (
    build_prompts,
    build_tries,
    check_model,
    discretize,
    eval_structured,
    exact_structured,
    floor_structured,
    generate,
    report,
    score_structured,
    train_hard,
    train_soft,
)


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

    def generations(self, condition: str) -> Path:
        return self.root / "generations" / "structured" / "embedded" / f"{condition}.parquet"

    def generate(self, condition: str) -> None:
        generate.main(
            **self.condition(condition), axis="structured", prompts=self.prompts,
            output=self.generations(condition), partial=self.root / "unfinished" / f"generate-{condition}",
        )  # fmt: skip

    def scores(self, condition: str) -> Path:
        return self.root / "scores" / "structured" / "embedded" / f"{condition}.parquet"

    def score(self, condition: str) -> None:
        score_structured.main(
            **self.condition(condition), prompts=self.prompts, tries=self.root / "tries" / "embedded" / "eval",
            output=self.scores(condition),
        )  # fmt: skip

    def exact(self, condition: str) -> Path:
        return self.root / "exact" / "structured" / "embedded" / f"{condition}.parquet"

    def compute(self, condition: str) -> None:
        exact_structured.main(
            **self.condition(condition), prompts=self.prompts, tries=self.root / "tries" / "embedded" / "eval",
            output=self.exact(condition), partial=self.root / "unfinished" / f"exact-{condition}",
        )  # fmt: skip

    def evaluate(self, condition: str) -> Path:
        output = self.root / "evals" / "structured" / "embedded" / condition
        floors = self.root / "floors" / "structured.parquet"
        if not floors.exists():
            floor_structured.main(self.params, self.prompts, floors)
        eval_structured.main(
            self.params, "embedded", condition, self.prompts, self.generations(condition), self.scores(condition),
            self.exact(condition), floors, output,
        )  # fmt: skip
        return output

    def report(self, output: Path) -> None:
        report.main(self.params, self.root / "evals", self.root / "generations", self.prompts, output)


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
    return dag
