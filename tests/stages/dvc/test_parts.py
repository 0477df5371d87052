"""One load of a model for all axes, under real DVC: what is done is kept, and nothing outlives what concerns it."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pipeline.artifacts.unavailable import why_unavailable
from tests.stages.dvc.clones import clone_project, copy_code, dvc, insert_statement, run, write_params

pytestmark = [pytest.mark.skipif(shutil.which("git") is None, reason="DVC needs Git"), pytest.mark.slow]

LOG = "engine.log"
FEW = (
    "axes=[open,mcq,novelty]",
    "conditions=[base,soft]",
    "generate.ssot.enabled=false",
    "prompts.novelty.source=novelty.jsonl",
    "prompts.novelty.max_prompts_per_split=null",
    "prompts.novelty.splits=[curated]",
)
GOALS = ("generate", "score", "judge", "eval-open", "eval-mcq", "eval-novelty")
REQUESTS = ["Name a colour.", "Tell me a word.", "Name a city."]
EVERYTHING = {f"{axis} {condition}" for axis in ("open", "mcq", "novelty") for condition in ("base", "soft")}
# What the copied code does besides: it writes down what it loads and samples, and stumbles where it is told to.
WRITES = f"open({LOG!r}, 'a').write(f'{{__import__(\"os\").getpid()}} {{what}}\\n')"
LOADS = WRITES.replace("{what}", "load")
SAMPLES = WRITES.replace("{what}", "{axis} {condition}")
STUMBLES = (
    "exec(open('stumble.py').read(), {'axis': axis, 'condition': condition}) "
    "if __import__('os').path.exists('stumble.py') else None"
)


def write_requests(clone: Path, *requests: str) -> None:
    """NoveltyBench's prompts, in a file of the clone."""
    rows = [
        {"id": f"curated-{number}", "split": "curated", "category": "Naming", "prompt": text}
        for number, text in enumerate(requests)
    ]
    (clone / "novelty.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")


def insert(path: Path, name: str, statement: str) -> None:
    """Put a statement at the start of a function."""
    insert_statement(path, name)
    path.write_text(path.read_text().replace("edited = 0", statement))


@pytest.fixture(scope="module")
def clone(tmp_path_factory, tiny_model, environment) -> Path:
    """A clone with a remote beside it, in which everything was run once."""
    clone = tmp_path_factory.mktemp("parts") / "first"
    clone.mkdir()
    write_requests(clone, *REQUESTS)
    clone_project(clone, tiny_model, *FEW)
    copy_code(clone)
    insert(clone / "pipeline" / "engines" / "loading" / "model.py", "load_model", LOADS)
    sampling = clone / "pipeline" / "stages" / "generate_axis.py"
    insert(sampling, "main", STUMBLES)
    insert(sampling, "main", SAMPLES)
    write_params_of(clone, environment, tiny_model)
    run(clone, environment, "git", "init", "-q")
    dvc(clone, environment, "remote", "add", "-d", "store", "../store")
    return clone


def write_params_of(clone: Path, environment: dict[str, str], tiny_model: Path, *overrides: str) -> None:
    """Compose the clone's parameters, with digests of its own code."""
    write_params(clone, tiny_model, *FEW, *overrides)
    run(clone, environment, "python", "-m", "pipeline.compose", "--recorded")


def logged(clone: Path) -> list[str]:
    """What was loaded and sampled since the last look."""
    return [line.partition(" ")[2] for line in logged_by_process(clone)]


def logged_by_process(clone: Path) -> list[str]:
    """The same behind the number of the process."""
    path = clone / LOG
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def sampled(lines: list[str]) -> set[str]:
    return {line for line in lines if line != "load"}


@pytest.fixture(scope="module")
def first_run(clone, environment) -> list[str]:
    """What was loaded and sampled, behind the number of the process."""
    dvc(clone, environment, "repro", *GOALS)
    return logged_by_process(clone)


def repro(clone: Path, environment: dict[str, str]) -> list[str]:
    """Bring everything up to date; what was loaded and sampled for it."""
    dvc(clone, environment, "repro", *GOALS)
    return logged(clone)


def test_a_stage_loads_its_model_once_for_all_axes(first_run):
    done: dict[str, list[str]] = {}
    for line in first_run:
        process, _, what = line.partition(" ")
        done.setdefault(process, []).append(what)
    sampling = [lines for lines in done.values() if sampled(lines)]
    assert sorted(map(sorted, sampling)) == [
        ["load", *sorted(name for name in EVERYTHING if name.endswith(condition))] for condition in ("base", "soft")
    ]
    # Score of two conditions, the judge's stand-in for a reward model, and training; preflight compares an adapter.
    assert [len(lines) for lines in done.values() if not sampled(lines)].count(1) >= 4


def test_a_new_list_of_prompts_is_sampled_by_its_axis_alone(clone, first_run, environment):
    write_requests(clone, *REQUESTS, "Name an animal.")
    lines = repro(clone, environment)
    assert sampled(lines) == {"novelty base", "novelty soft"} and lines.count("load") == 3
    answers = pd.read_parquet(clone / "artifacts" / "generations" / "novelty" / "embedded" / "soft.parquet")
    assert answers["prompt_id"].nunique() == len(REQUESTS) + 1


def test_a_metric_that_is_computed_otherwise_loads_no_model(clone, first_run, environment, tiny_model):
    insert_statement(clone / "pipeline" / "axes" / "open" / "open_ended.py", "law_entropy")
    insert_statement(clone / "pipeline" / "axes" / "open" / "evaluate.py", "main")
    write_params_of(clone, environment, tiny_model)
    # The entropy of first-step laws is computed where they are scored.
    lines = repro(clone, environment)
    assert sampled(lines) == set() and lines.count("load") == 2
    insert_statement(clone / "pipeline" / "axes" / "open" / "evaluate.py", "main")
    write_params_of(clone, environment, tiny_model)
    assert repro(clone, environment) == []


def test_a_stage_that_is_killed_between_two_axes_goes_on_with_the_second(clone, first_run, environment, tiny_model):
    write_params_of(clone, environment, tiny_model, "sampling_seed=7")
    (clone / "stumble.py").write_text(f"import os\nif axis == 'mcq': os.kill(os.getpid(), {int(signal.SIGKILL)})\n")
    command = [sys.executable, "-m", "dvc", "repro", "generate@embedded-base"]
    killed = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    (clone / "stumble.py").unlink()
    assert killed.returncode != 0 and logged(clone).count("open base") == 1
    dvc(clone, environment, "repro", "generate@embedded-base")
    assert sampled(logged(clone)) == {"mcq base", "novelty base"}


def test_a_condition_that_cannot_be_run_is_shown_as_failed(clone, first_run, environment, tiny_model):
    write_params_of(clone, environment, tiny_model, "sampling_seed=8")
    (clone / "stumble.py").write_text(
        "from pipeline.errors import ModelError\n"
        "if (axis, condition) == ('mcq', 'soft'): raise ModelError('not enough memory for one answer')\n"
    )
    dvc(clone, environment, "repro", *GOALS)
    (clone / "stumble.py").unlink()
    evaluations = clone / "artifacts" / "evals" / "mcq" / "embedded"
    assert (evaluations / "base" / "metrics.json").exists() and not (evaluations / "soft" / "metrics.json").exists()
    assert why_unavailable(evaluations / "soft") == "generate-mcq embedded soft: not enough memory for one answer"
    printed = run(clone, environment, sys.executable, "-m", "pipeline.stages.report")
    assert "FAILED: mcq of embedded soft: generate-mcq embedded soft: not enough memory for one answer" in printed
    table = (clone / "reports" / "tables" / "table20.md").read_text()
    assert "failed" in table
    logged(clone)
    # It is tried again where DVC is told to, and then is like any other.
    dvc(clone, environment, "repro", "--force", "--single-item", "generate@embedded-soft")
    assert sampled(logged(clone)) == {"mcq soft"}


def test_in_another_clone_what_was_pulled_is_kept(clone, first_run, environment, tiny_model):
    repro(clone, environment)
    run(clone, environment, "git", "add", "-A")
    run(clone, environment, "git", "commit", "-qm", "Results")
    dvc(clone, environment, "push")
    other = clone.with_name("second")
    run(clone.parent, environment, "git", "clone", "-q", str(clone), str(other))
    dvc(other, environment, "pull", "--allow-missing")
    assert repro(other, environment) == []
    write_requests(other, *REQUESTS[:2])
    assert sampled(repro(other, environment)) == {"novelty base", "novelty soft"}
