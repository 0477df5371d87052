"""Provenance: what is recorded, and the way back from a table's cell, with every hash compared."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.storage import sha256_json, write_json
from pipeline.errors import ArtifactError, ConfigError
from pipeline.metrics.registry import metric_sources
from pipeline.record.dvc_lock import md5_path
from pipeline.record.provenance import StageRecord
from pipeline.record.table_cell import select_cell
from pipeline.record.trace import main, trace_cell
from pipeline.report.evaluations import read_evaluations
from tests.conftest import ROOT

EVALUATION = "artifacts/evals/structured/m/soft"
METRIC = {
    "axis": "structured",
    "model": "m",
    "condition": "soft",
    "split": "ood",
    "family": "",
    "metric": "wasserstein_1_normalised",
    "value": 0.1,
    "n": 5,
    "ci_low": None,
    "ci_high": None,
    "floor": 0.02,
    "undefined": 0,
}


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e")
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def locked(command: str, deps: list[str], outs: list[str], params: dict) -> dict:
    def entries(paths: list[str]) -> list[dict]:
        return [{"path": path, "hash": "md5", "md5": md5_path(Path(path))} for path in paths]

    return {"cmd": command, "deps": entries(deps), "outs": entries(outs), "params": {"params.yaml": params}}


@pytest.fixture
def project(monkeypatch, tmp_path):
    """Prompts (known to dvc.lock alone) -> samples -> evaluation -> table, as the stages and DVC would leave them."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    monkeypatch.setattr("pipeline.record.provenance.PROJECT", tmp_path)
    for name, text in (("dvc.yaml", "stages: {}"), ("code/prompts.py", "1"), ("code/eval.py", "2"), ("data/raw", "3")):
        write(name, text)
    git("add", "-A")
    git("commit", "-qm", "first")
    write("artifacts/prompts.parquet", "prompts")
    generate = StageRecord(
        "generate_structured", {"seed": 7, "model": {"dtype": "float32"}}, [Path("artifacts/prompts.parquet")]
    )
    write("artifacts/generations.parquet", "samples")
    generate.write(Path("artifacts/generations.provenance.json"), num_generations=5)
    evaluate = StageRecord(
        "eval_structured", {"seed": 7, "model": "m", "condition": "soft"}, [Path("artifacts/generations.parquet")]
    )
    write(f"{EVALUATION}/per_prompt.parquet", "rows")
    write_json(Path(EVALUATION, "metrics.json"), {"metrics": [METRIC], "failures": {}})
    evaluate.write(Path(EVALUATION, "provenance.json"), seed=7)
    deps = ["code/prompts.py", "data"]
    stages = {
        "build_prompts": locked("make prompts", deps, ["artifacts/prompts.parquet"], {"seed": 7}),
        "eval_structured@m-soft": locked("eval", ["artifacts/generations.parquet", "code/eval.py"], [EVALUATION], {}),
    }
    write("dvc.lock", yaml.safe_dump({"schema": "2.0", "stages": stages}))
    rows = [
        {**METRIC, "status": "ok", "provenance": f"{EVALUATION}/provenance.json"},
        {**METRIC, "condition": "hard", "value": "", "status": "not run", "provenance": ""},
        {**METRIC, "metric": "valid_rate", "value": 0.9, "status": "ok", "provenance": f"{EVALUATION}/provenance.json"},
    ]
    Path("reports").mkdir()
    with Path("reports/table6.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


TABLE = Path("reports/table6.csv")


def traced():
    return trace_cell(TABLE, ["soft", "metric=wasserstein_1_normalised"], None)


def statuses(origin) -> dict[str, str]:
    return {path: artifact.status for path, artifact in origin.artifacts.items()}


def test_the_chain_is_whole(project):
    origin = traced()
    assert origin.comparison == ("ok", f"as in {EVALUATION}/metrics.json") and origin.mismatches == []
    assert statuses(origin) == dict.fromkeys(
        (
            EVALUATION,
            "artifacts/generations.parquet",
            "artifacts/prompts.parquet",
            "code/eval.py",
            "code/prompts.py",
            "data",
        ),
        "ok",
    )
    (evaluation,) = origin.evaluations
    assert evaluation.stage == "eval_structured@m-soft" and evaluation.commit == git("rev-parse", "HEAD")
    assert list(evaluation.sources) == ["code/eval.py"]
    samples = evaluation.inputs["artifacts/generations.parquet"]
    assert samples.stage == "generate_structured" and samples.parameters["seed"] == 7
    prompts = samples.inputs["artifacts/prompts.parquet"]
    assert prompts.stage == "build_prompts" and prompts.record is None and prompts.parameters == {"seed": 7}
    assert list(prompts.sources) == ["code/prompts.py", "data"] and prompts.inputs == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("artifacts/prompts.parquet", {"artifacts/prompts.parquet"}),
        ("artifacts/generations.parquet", {"artifacts/generations.parquet"}),
        (f"{EVALUATION}/per_prompt.parquet", {EVALUATION}),
        ("data/raw", {"data"}),
    ],
)
def test_a_changed_file_is_a_mismatch(project, path, expected):
    if path == "data/raw":
        # A source is looked for in the history first.
        git("checkout", "-q", "--orphan", "other")
        git("rm", "-rq", "--cached", "data")
        git("commit", "-qm", "other")
        Path(".git/refs/heads/master").unlink(missing_ok=True)
        for record in (Path("artifacts/generations.provenance.json"), Path(EVALUATION, "provenance.json")):
            record.write_text(record.read_text().replace(json.loads(record.read_text())["git"]["commit"], "0" * 40))
    Path(path).write_text("tampered")
    origin = traced()
    changed = {path for path, status in statuses(origin).items() if status == "MISMATCH"}
    assert changed - {EVALUATION} == expected - {EVALUATION} and expected <= changed
    assert all(any(path in problem for problem in origin.mismatches) for path in expected)


def test_a_changed_cell_is_a_mismatch(project):
    TABLE.write_text(TABLE.read_text().replace(",0.1,", ",0.05,"))
    assert traced().mismatches == [f"the table's cell: {EVALUATION}/metrics.json has 0.1"]


def test_an_edited_record_is_a_mismatch(project):
    record = Path("artifacts/generations.provenance.json")
    record.write_text(record.read_text().replace('"seed": 7', '"seed": 8'))
    (problem,) = traced().mismatches
    assert problem.startswith("artifacts/generations.provenance.json contradicts itself")


def test_a_missing_file_is_no_mismatch(project):
    Path("artifacts/generations.parquet").unlink()
    origin = traced()
    assert statuses(origin)["artifacts/generations.parquet"] == "MISSING" and origin.mismatches == []
    # Its record tells the rest of the way.
    assert statuses(origin)["artifacts/prompts.parquet"] == "ok"


def test_a_source_that_was_committed_has_changed_since(project):
    first = git("rev-parse", "HEAD")
    write("code/eval.py", "new")
    write("data/raw", "new")
    git("add", "code", "data")
    git("commit", "-qm", "second")
    artifacts = traced().artifacts
    for path in ("code/eval.py", "data"):
        assert (artifacts[path].status, artifacts[path].changed_since) == ("changed since", first)
    assert not any(artifact.problems for artifact in artifacts.values())


def command(*arguments: str) -> subprocess.CompletedProcess:
    code = (
        "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('pipeline.record.provenance', "
        "run_name='__main__', alter_sys=True)"
    )
    return subprocess.run([sys.executable, "-c", code, str(ROOT), *arguments], capture_output=True, text=True)


def test_command_prints_a_tree_and_json(project):
    result = command(str(TABLE), "--row", "metric=wasserstein_1_normalised", "--column", "soft")
    assert result.returncode == 0, result.stderr
    text = result.stdout
    assert text.startswith("reports/table6.csv, row 1, column value: 0.1\n") and "seed=7" in text
    assert git("rev-parse", "HEAD") in text and "pipeline/core/structured/wasserstein.py prompt_row" in text
    # Inputs are indented below what was made of them.
    depth = {line.split()[0]: len(line) - len(line.lstrip()) for line in text.splitlines() if "<-" in line}
    assert depth == {EVALUATION: 0, "artifacts/generations.parquet": 4, "artifacts/prompts.parquet": 8}
    found = json.loads(command(str(TABLE), "--row", "1", "--json").stdout)
    assert found["row"]["condition"] == "soft" and found["mismatches"] == []
    samples = found["artifacts"]["artifacts/generations.parquet"]
    assert samples["parameters_sha256"] == sha256_json({"seed": 7, "model": {"dtype": "float32"}})
    assert samples["provenance"]["packages"]["torch"] and samples["inputs"] == ["artifacts/prompts.parquet"]


def test_command_fails_on_a_mismatch(project):
    write("artifacts/prompts.parquet", "other prompts")
    result = command(str(TABLE), "--row", "1")
    assert result.returncode == 1
    assert "[MISMATCH]" in result.stdout and "error: MISMATCH: artifacts/prompts.parquet is not what" in result.stderr


@pytest.mark.parametrize(
    ("selectors", "column", "message"),
    [
        (
            [],
            None,
            r"3 rows of .* fit \(numbers 1, 2, 3\).*differ in condition: soft, hard; metric: w",
        ),
        (["soft"], None, r"2 rows .* fit \(numbers 1, 3\)"),
        (["condition=base"], None, "no such row .* the column holds soft, hard"),
        (["colour=red"], None, "has no column 'colour'; its columns are axis, model"),
        (["red"], None, "no column holds it"),
        (["4"], None, "its rows are 1 to 3"),
        (["1"], "red", "--column red: .* no such column; its columns are axis, model"),
    ],
)
def test_unclear_choices_name_what_there_is(project, selectors, column, message):
    with pytest.raises(ConfigError, match=message):
        select_cell(TABLE, selectors, column)


def test_a_cell_is_chosen_as_a_reader_names_it(project):
    for selectors, column in (
        (["1"], None),
        (["1"], "soft"),
        (["split=ood", "1"], "value"),
        (["wasserstein_1_normalised", "family=", "condition=soft"], None),
    ):
        cell = select_cell(TABLE, selectors, column)
        assert (cell.number, cell.column, cell.text) == (1, "value", "0.1")
    assert select_cell(TABLE, ["1"], "n").text == "5"


def test_cells_and_tables_without_an_evaluation(project):
    with pytest.raises(ArtifactError, match=r"row 2: no evaluation stands behind this cell \(not run\)"):
        trace_cell(TABLE, ["2"], None)
    with pytest.raises(ArtifactError, match="is not a CSV file"):
        trace_cell(Path("reports/table6.md"), ["2"], None)
    with pytest.raises(ArtifactError, match="does not exist"):
        trace_cell(Path("reports/table7.csv"), ["2"], None)


def test_a_mean_over_models_leads_to_all_of_them(project):
    text = TABLE.read_text()
    TABLE.write_text(text.replace(f"{EVALUATION}/provenance.json", f"{EVALUATION}/provenance.json; other/x.json", 1))
    origin = traced()
    assert [evaluation.path for evaluation in origin.evaluations] == [EVALUATION, "other"]
    assert origin.comparison[0] == "not compared"


def test_a_sweeps_cell_is_traced_in_its_own_directory(project, capsys):
    """Paths in a cell's records and lock are the cell's; the checkout has files of the same names."""
    cell = Path("sweeps", "s", "1")
    cell.mkdir(parents=True)
    for name in ("artifacts", "code", "data"):
        shutil.copytree(name, cell / name)
    for name in ("dvc.yaml", "dvc.lock"):
        shutil.copy(name, cell)
    text = TABLE.read_text()
    TABLE.write_text(text.replace(f"{EVALUATION}/provenance.json", f"{cell / EVALUATION}/provenance.json", 1))
    write("artifacts/prompts.parquet", "the checkout's own")
    origin = traced()
    assert origin.mismatches == [] and origin.comparison[0] == "ok"
    assert set(statuses(origin).values()) == {"ok"}
    assert str(cell / "artifacts" / "prompts.parquet") in statuses(origin)
    main(TABLE, ["soft", "metric=wasserstein_1_normalised"], None, False)
    assert f"in {cell}:" in capsys.readouterr().out


def test_lists_say_which_evaluation_a_row_is_from(project):
    evaluations = read_evaluations(Path("artifacts/evals"))
    table = pd.DataFrame({"model": ["m", "m"], "condition": ["soft", "hard"], "difference": [0.1, 0.2]})
    found = evaluations.with_provenance("structured", table)
    assert list(found["provenance"]) == [f"{EVALUATION}/provenance.json", ""] and "provenance" not in table
    assert list(evaluations.with_provenance("open", table)["provenance"]) == ["", ""]
    twice = evaluations.with_provenance("structured", table.assign(against="soft"))["provenance"]
    assert list(twice) == ["; ".join([f"{EVALUATION}/provenance.json"] * 2), f"{EVALUATION}/provenance.json"]


def test_metrics_are_found_in_the_code():
    assert {source["file"] for source in metric_sources("mcq_total_variation")} == {
        "pipeline/core/language/multiple_choice.py"
    }
    assert metric_sources("no_such_metric") == metric_sources("") == []


def test_identity_is_of_contents_not_of_paths(tmp_path):
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    first, same, other = (StageRecord("s", {"p": 1}, [tmp_path / name]).identity for name in "abc")
    assert first == same != other
    assert StageRecord("s", {"p": 2}, [tmp_path / "a"]).identity != first
