"""The stages' own functions in DAG order, on the tiny model."""

import cProfile
import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.storage import write_table
from pipeline.config.evaluation import BASELINES
from pipeline.config.params import Params, load_params
from pipeline.dag.execution import StageRun, execute
from pipeline.dag.stage_kinds import evaluation_name
from pipeline.dag.stages import DECLARED
from pipeline.dag.tables import rows_of
from pipeline.report.figures.drawing import draw_all
from tests.stages.preloaded_python import draw_one, preloaded_python

CONDITIONS = ("base", "soft", "hard")
AXES = (
    *("structured", "open", "mcq", "novelty", "retention", "paloma", "anchors"),
    *("human", "semcal", "credal", "uncertainty", "inv_entropy"),
)


def named_run(name: str, params: Params, **replaced: Path | list[Path]) -> StageRun:
    """The run of a stage or part by its name in DVC, e.g. "train-soft@embedded"."""
    name, _, key = name.partition("@")
    stage = DECLARED[name]
    return StageRun(stage, rows_of(stage.over, params)[key], params, replaced)


def run_stage(params: Path, name: str, **replaced: Path | list[Path]) -> StageRun:
    """Run a stage in this process under its name in DVC, with other paths for some of its own."""
    run = named_run(name, load_params(params), **replaced)
    execute(run)
    return run


def write_generations(path: Path, texts: Mapping[str, Sequence[str]], *, reverse: bool = False) -> None:
    """A table of answers by prompt, in their order or the reverse."""
    rows = [
        (prompt_id, index, 100 + index, text, 3, "stop")
        for prompt_id, members in texts.items()
        for index, text in enumerate(members)
    ]
    write_table(path, pd.DataFrame(rows[::-1] if reverse else rows, columns=list(GENERATION_COLUMNS)))


@dataclass
class Dag:
    """The stages of the file ``params``, run in this process; artifacts lie where the declarations say."""

    params: Path
    profiles: dict[str, cProfile.Profile] | None = None  # what stages call, by their names in DVC

    @functools.cached_property
    def loaded(self) -> Params:
        return load_params(self.params)

    @property
    def root(self) -> Path:
        return Path(self.loaded.artifacts)

    def run(self, *names: str, **replaced: Path | list[Path]) -> StageRun:
        """Run stages one after the other, each under its name in DVC; the last one's run."""
        for name in names:
            run = named_run(name, self.loaded, **replaced)
            if self.profiles is None:
                execute(run)
            else:
                self.profiles[name] = cProfile.Profile(builtins=False)
                self.profiles[name].runcall(execute, run)
        return run

    def path(self, name: str, argument: str = "output") -> Path:
        """Where a stage reads or writes what its ``main`` calls ``argument``."""
        return named_run(name, self.loaded).paths[argument]

    @property
    def prompts(self) -> list[Path]:
        return [self.root / "prompts" / "unseen.parquet", self.root / "prompts" / "ood.parquet"]

    def generations(self, condition: str, axis: str = "structured") -> Path:
        baseline = "baselines-" if condition in BASELINES else ""
        return self.path(f"generate-{baseline}{axis}@embedded-{condition}")

    def evals(self, axis: str, condition: str) -> Path:
        return self.root / "evals" / axis / "embedded" / condition

    def prepare(self) -> None:
        self.run("build-prompts", "discretize@soft", "discretize@hard")
        self.run("discretize-eval", "check-model@embedded", "build-tries@embedded-soft")
        self.run("build-tries@embedded-eval", "import-irt")
        self.pass_preflight()

    def pass_preflight(self) -> None:
        """Its checks draw thousands of samples, and have tests of their own; stages depend on the report alone."""
        report = self.root / "preflight" / "embedded.json"
        report.parent.mkdir(parents=True)
        report.write_text("{}")

    def sample(self, axis: str, condition: str) -> None:
        """Run the stages of an axis that are of one condition, up to the evaluation."""
        names = {
            "structured": ("generate-structured", "score-structured"),
            "open": ("generate-open", "score-open"),
            "mcq": ("generate-mcq",),
            "novelty": ("generate-novelty", "partition-novelty", "reward-novelty"),
            "retention": ("score-retention",),
            "paloma": ("score-paloma",),
            "anchors": ("generate-anchors", "score-anchors"),
            "human": ("generate-questions", "partition-questions"),
            # Behind the axis human.
            "semcal": (),
            "credal": (),
            "uncertainty": ("score-questions",),
            "inv_entropy": ("generate-perturbations",),
        }[axis]
        if condition in BASELINES:
            names = (f"generate-baselines-{axis}",)
        for name in names:
            self.run(f"{name}@embedded-{condition}")

    def evaluate(self, axis: str, *conditions: str) -> Path:
        """Run the stages of an axis for some conditions, and its evaluation; the directory with one for each."""
        for condition in conditions:
            self.sample(axis, condition)
        self.run(f"{evaluation_name(axis)}@embedded")
        return self.root / "evals" / axis / "embedded"

    def report(self, output: Path) -> None:
        self.run("report", adapters=[], metrics=output / "metrics.csv")


@pytest.fixture
def one_figure(monkeypatch) -> None:
    """Reports have one figure, for tests of their tables."""
    monkeypatch.setattr("pipeline.report.write.draw_all", functools.partial(draw_one, draw_all))


@pytest.fixture(scope="session")
def variables() -> dict[str, str]:
    """Variables of processes that ask nothing of the network and commit with Git."""
    return os.environ | {
        "WANDB_MODE": "disabled",
        "HF_HUB_OFFLINE": "1",
        "DVC_NO_ANALYTICS": "1",
        **{f"GIT_{who}_{what}": "n" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }


@pytest.fixture(scope="session")
def environment(variables, tmp_path_factory) -> Iterator[dict[str, str]]:
    """Variables of processes whose ``python`` starts with the libraries loaded, which takes longer than a stage."""
    with preloaded_python(tmp_path_factory.mktemp("python"), variables) as directory:
        path = os.pathsep.join([str(directory), str(Path(sys.executable).parent), os.environ["PATH"]])
        yield variables | {"PATH": path}


@pytest.fixture(scope="session")
def profiles() -> dict[str, cProfile.Profile]:
    """What the stages of ``dag`` called that run once, for soft, for ssot or for all, by their names in DVC."""
    return {}


@pytest.fixture(scope="session")
def dag(tiny_params, profiles) -> Dag:
    """Everything up to the evaluations, run once."""
    dag = Dag(tiny_params, profiles)
    dag.prepare()
    dag.run("train-soft@embedded", "train-hard@embedded")
    for condition in CONDITIONS:
        dag.profiles = profiles if condition == "soft" else None
        for axis in AXES:
            dag.sample(axis, condition)
    dag.profiles = profiles
    for axis in ("structured", "open"):
        dag.sample(axis, "ssot")
    for axis in AXES:
        dag.evaluate(axis)
    dag.profiles = None
    return dag
