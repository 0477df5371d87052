"""The way back from a table's cell, with every hash compared."""

import csv
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.artifacts.storage import write_json
from pipeline.errors import ArtifactError, ConfigError
from pipeline.record.provenance import StageRecord, git_revision, sha256_path
from pipeline.runs.trace import main, select_cell, trace_cell

pytestmark = pytest.mark.slow

EVALUATION = "artifacts/evals/structured/m/soft"
ALL_SAMPLES = "artifacts/generations/structured/m"
SAMPLES, OF_BASE, OF_HARD = (f"{ALL_SAMPLES}/{condition}.parquet" for condition in ("soft", "base", "hard"))
RECORD = f"{ALL_SAMPLES}/soft.provenance.json"
PROMPTS = "artifacts/prompts/ood.parquet"
LABELS = {"axis": "structured", "model": "m", "condition": "soft", "split": "ood", "family": ""}
NUMBERS = {"value": 0.1, "n": 5, "ci_low": None, "ci_high": None, "floor": 0.02, "undefined": 0}
METRIC = {**LABELS, "metric": "wasserstein_1_normalised", **NUMBERS}


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e")
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def stage_record(stage: str, parameters: dict, inputs: list[str]) -> StageRecord:
    return StageRecord(stage, parameters, list(map(Path, inputs)), "0" * 16, 7, f"run {stage}")


def outputs(*paths: str) -> dict[str, str]:
    return {path: sha256_path(Path(path)) for path in paths}


@pytest.fixture
def project(monkeypatch, tmp_path):
    """Prompts -> samples of three conditions -> their evaluation -> table, as the stages would leave them."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    monkeypatch.setattr("pipeline.record.provenance.PROJECT", tmp_path)
    git_revision.cache_clear()  # Asked once in a process.
    for name, text in (("dvc.yaml", "stages: {}"), ("data/raw", "3"), ("data/more/raw", "4"), ("model.bin", "5")):
        write(name, text)
    git("add", "-A")
    git("commit", "-qm", "first")
    prompts = stage_record("build-prompts-structured", {"seed": 7}, ["data"])
    write("artifacts/prompts/ood.parquet", "prompts")
    write("artifacts/prompts/unseen.parquet", "more prompts")
    prompts.write(
        Path("artifacts/prompts/provenance.json"),
        outputs("artifacts/prompts/ood.parquet", "artifacts/prompts/unseen.parquet"),
    )
    parameters = {"seed": 7, "models.m.dtype": "float32", "engine.kind": "transformers"}
    for samples in (SAMPLES, OF_BASE, OF_HARD):
        generate = stage_record("generate-structured", parameters, [PROMPTS, "model.bin"])
        write(samples, samples)
        generate.write(Path(samples).with_suffix(".provenance.json"), outputs(samples), num_generations=5)
    evaluate = stage_record("eval-structured", {"seed": 7, "model": "m"}, [ALL_SAMPLES])
    write(f"{EVALUATION}/per_prompt.parquet", "rows")
    write_json(Path(EVALUATION, "metrics.json"), {"metrics": [METRIC], "failures": {}})
    evaluate.write(Path(EVALUATION, "provenance.json"), outputs(EVALUATION))
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
    # Its own samples and base's, and not those of the method beside it.
    expected = (EVALUATION, ALL_SAMPLES, SAMPLES, OF_BASE, PROMPTS, "model.bin", "data")
    assert statuses(origin) == dict.fromkeys(expected, "ok")
    (evaluation,) = origin.evaluations
    assert evaluation.stage == "eval-structured" and evaluation.record["git"]["commit"] == git("rev-parse", "HEAD")
    (samples,) = evaluation.inputs
    assert [artifact.path for artifact in samples.inputs] == [OF_BASE, SAMPLES]
    own = samples.inputs[1]
    assert own.stage == "generate-structured" and own.record["parameters"]["seed"] == 7
    prompts = own.inputs[0]
    assert prompts.stage == "build-prompts-structured" and prompts.record_path == "artifacts/prompts/provenance.json"
    assert [artifact.path for artifact in prompts.inputs] == ["data"] and not prompts.inputs[0].record


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (SAMPLES, {SAMPLES, ALL_SAMPLES}),
        # The evaluation has read it, too.
        (OF_HARD, {ALL_SAMPLES}),
        ("data/raw", {"data"}),
    ],
)
def test_a_changed_file_is_a_mismatch(project, path, expected):
    Path(path).write_text("tampered")
    origin = traced()
    assert {path for path, status in statuses(origin).items() if status == "MISMATCH"} == expected
    assert all(any(path in problem for problem in origin.mismatches) for path in expected)


def test_a_changed_cell_and_an_edited_record_are_mismatches(project):
    TABLE.write_text(TABLE.read_text().replace(",0.1,", ",0.05,"))
    assert traced().mismatches == [f"the table's cell: {EVALUATION}/metrics.json has 0.1"]
    Path(RECORD).write_text(Path(RECORD).read_text().replace('"seed": 7', '"seed": 8'))
    assert traced().mismatches[1].startswith(f"{RECORD} contradicts itself")


def test_all_that_is_upstream_is_printed_and_a_mismatch_fails(project, capsys):
    main(TABLE, ["metric=wasserstein_1_normalised", "soft"], None)
    text = capsys.readouterr().out
    assert text.startswith("reports/table6.csv, row 1, column value: 0.1\n") and "seed=7" in text
    assert git("rev-parse", "HEAD") in text
    made = [line.split()[0] for line in text.splitlines() if "<-" in line]
    assert made == [EVALUATION, OF_BASE, PROMPTS, SAMPLES] and f"    read: {PROMPTS}, model.bin" in text
    write(PROMPTS, "other prompts")
    with pytest.raises(ArtifactError, match=f"^MISMATCH: {PROMPTS} is not what"):
        main(TABLE, ["1"], None)
    assert "[MISMATCH]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("selectors", "column", "message"),
    [
        ([], None, r"3 rows of .* fit \(numbers 1, 2, 3\).*differ in condition: soft, hard; metric: w"),
        (["condition=base"], None, "no such row .* condition: soft, hard"),
        (["colour=red"], None, "has no column 'colour'; its columns are axis, model"),
        (["1"], "red", "--column red: .* no such column; its columns are axis, model"),
    ],
)
def test_unclear_choices_name_what_there_is(project, selectors, column, message):
    with pytest.raises(ConfigError, match=message):
        select_cell(TABLE, selectors, column)


def test_cells_and_tables_without_an_evaluation(project):
    with pytest.raises(ArtifactError, match=r"row 2: no evaluation stands behind this cell \(not run\)"):
        trace_cell(TABLE, ["2"], None)
    with pytest.raises(ArtifactError, match="is not a CSV file"):
        trace_cell(Path("reports/table6.md"), ["2"], None)
    with pytest.raises(ArtifactError, match="does not exist"):
        trace_cell(Path("reports/table7.csv"), ["2"], None)
    with pytest.raises(ConfigError, match=r"make provenance TABLE=.* ROW="):
        main(None, [], None)


def test_a_sweeps_cell_is_traced_in_its_own_directory(project):
    """Paths in a cell's records and lock are the cell's; the checkout has files of the same names."""
    cell = Path("sweeps", "s", "1")
    cell.mkdir(parents=True)
    for name in ("artifacts", "data"):
        shutil.copytree(name, cell / name)
    for name in ("dvc.yaml", "model.bin"):
        shutil.copy(name, cell)
    text = TABLE.read_text()
    TABLE.write_text(text.replace(f"{EVALUATION}/provenance.json", f"{cell / EVALUATION}/provenance.json", 1))
    write(PROMPTS, "the checkout's own")
    origin = traced()
    assert origin.mismatches == [] and origin.comparison[0] == "ok"
    assert set(statuses(origin).values()) == {"ok"}
    assert str(cell / PROMPTS) in statuses(origin)
