"""The tiny tasks' stage on the tiny model: what it writes, how it resumes, what it says about bad data."""

import json
import shutil

import datasets
import pandas as pd
import pytest
import yaml

from pipeline.artifacts.prompts import write_prompts
from pipeline.artifacts.storage import sha256_json
from pipeline.axes.retention import score as score_retention
from pipeline.config.params import load_params
from pipeline.config.retention import TINY_TASKS
from pipeline.core.prompts.structured import build_split
from pipeline.core.retention.tasks import METRICS, TASKS
from pipeline.dag.execution import StageRun, find_run
from pipeline.dag.stages import PARTS
from pipeline.engines.scoring.task_model import TaskModel
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources.fetch import downloads
from pipeline.sources.retention_data import local_folder, pinned_revisions, read_task
from pipeline.stages.resumable import ResumableMap
from scripts.make_retention_items import task_splits
from tests.conftest import ROOT
from tests.stages.conftest import run_stage

ITEMS = 3
GENERATED = {"answer", "extracted", "gold", "num_tokens", "finish_reason"}


@pytest.fixture(scope="module")
def report(tiny_params, tmp_path_factory):
    """Of check_model, whose request is the first of a small table of prompts."""
    root = tmp_path_factory.mktemp("retention model")
    write_prompts(root / "ood.parquet", build_split("ood", selection="selected", families=["poisson"]))
    run_stage(
        tiny_params, "check-model@embedded", prompts=[root / "ood.parquet"], output=root / "models" / "embedded.json"
    )
    return root / "models" / "embedded.json"


@pytest.fixture
def source(tmp_path):
    """The shipped data sets, cut to a few items each."""
    directory = tmp_path / "data"
    for task in TINY_TASKS:
        folder, wanted = ROOT / "data" / "retention" / task, TASKS[task]
        (directory / task).mkdir(parents=True)
        for path in folder.glob("*.jsonl"):
            lines = path.read_text().splitlines(keepends=True)
            kept = lines[:ITEMS] if path.stem == wanted.split else lines
            (directory / task / path.name).write_text("".join(kept))
    return directory


@pytest.fixture
def params(tiny_params, report, source, tmp_path):
    values = yaml.safe_load(tiny_params.read_text())
    values["artifacts"] = str(tmp_path / "artifacts")
    shutil.copytree(report.parent, tmp_path / "artifacts" / "models")
    values["retention"].update(source=str(source), tasks=list(TINY_TASKS), max_new_tokens=5, tokens_per_pass=4096)
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


@pytest.fixture
def run(params, tmp_path):
    def score(output="scores.parquet"):
        run_stage(params, "score-retention@embedded-base", output=tmp_path / output)
        return pd.read_parquet(tmp_path / output)

    return score


def with_settings(params, **changes):
    values = yaml.safe_load(params.read_text())
    values["retention"].update(changes)
    params.write_text(yaml.safe_dump(values, sort_keys=False))
    return load_params(params).retention


def test_one_row_per_task_item_and_metric(run, tmp_path, capsys):
    table = run()
    expected = [(task, item, metric) for task in TINY_TASKS for metric in METRICS[task] for item in range(ITEMS)]
    assert list(zip(table["task"], table["item"], table["metric"], strict=True)) == expected
    assert tuple(table.columns) == score_retention.ITEM_SCORE_COLUMNS
    assert table["value"].dtype == "float64" and table["value"].between(0, 1).all()
    details = [json.loads(text) for text in table["details"]]
    for task, detail in zip(table["task"], details, strict=True):
        assert set(detail) == (GENERATED if task == "tinyGSM8k" else {"log_likelihoods", "gold"})
    assert all(value < 0 for value in details[0]["log_likelihoods"]) and len(details[0]["log_likelihoods"]) == 4
    provenance = json.loads((tmp_path / "scores.provenance.json").read_text())
    assert provenance["num_items"] == dict.fromkeys(TINY_TASKS, ITEMS)
    assert "tinyMMLU: 3 items, where the published task has 100" in capsys.readouterr().out
    assert provenance["found"]["revisions"] == dict.fromkeys(TINY_TASKS)
    assert not list((tmp_path / "artifacts" / "unfinished").rglob("*.jsonl"))


def test_a_killed_run_goes_on_where_it_stopped(run, tmp_path, monkeypatch):
    whole = run()
    keep, batches = ResumableMap._keep, []

    def killed(self, batch):
        if len(batches) == 3:
            raise KeyboardInterrupt
        batches.append(batch)
        keep(self, batch)

    monkeypatch.setattr(ResumableMap, "_keep", killed)
    with pytest.raises(KeyboardInterrupt):
        run("again.parquet")
    assert not (tmp_path / "again.parquet").exists()
    monkeypatch.setattr(ResumableMap, "_keep", keep)
    unfinished = tmp_path / "artifacts" / "unfinished" / "score-retention" / "embedded-base"
    kept = {key for path in unfinished.glob("*/*.jsonl") for line in path.open() for key in json.loads(line)}
    asked, answer = [], TaskModel.answer

    def counted(self, kind, arguments):
        asked.extend(sha256_json((kind, pair)) for pair in arguments)
        return answer(self, kind, arguments)

    monkeypatch.setattr(TaskModel, "answer", counted)
    again = run("again.parquet")
    assert kept and asked and not kept & set(asked)
    assert again.drop(columns=["value", "details"]).equals(whole.drop(columns=["value", "details"]))
    assert again["value"].to_numpy() == pytest.approx(whole["value"].to_numpy(), abs=1e-4)


def test_a_finished_journal_needs_no_model(run, tmp_path, monkeypatch):
    monkeypatch.setattr(StageRun, "write_table", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.undo()
    monkeypatch.setattr(score_retention, "open_model", None)
    assert len(run()) == 2 * ITEMS * len(TINY_TASKS)


def edited_model(params, tiny_model, directory, edit):
    """Parameters with a copy of the tiny model whose tokenizer is edited, and its report."""
    shutil.copytree(tiny_model, directory)
    edit(directory)
    values = yaml.safe_load(params.read_text())
    values["models"]["embedded"]["checkpoint"] = str(directory)
    params.write_text(yaml.safe_dump(values, sort_keys=False))


def recorded_format(tmp_path):
    return json.loads((tmp_path / "scores.provenance.json").read_text())["found"]["prompt_format"]


def test_prompts_are_in_the_chat_template_where_there_is_one(run, params, tiny_model, tmp_path, monkeypatch, capsys):
    asked, answer = [], TaskModel.answer

    def kept(self, kind, arguments):
        asked.extend(context for context, _ in arguments)
        return answer(self, kind, arguments)

    monkeypatch.setattr(TaskModel, "answer", kept)
    assert set(run()["prompt_format"]) == {"chat"} and recorded_format(tmp_path) == "chat"
    end = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert asked and all(text.startswith("<|im_start|>user\n") and text.endswith(end) for text in asked)
    assert all(text.count("<|im_start|>") == 2 for text in asked)
    # GPT-OSS's way: the answer goes into the final channel, which the prompt opens.
    values = yaml.safe_load(params.read_text())
    values["models"]["embedded"]["chat"]["answer_prefix"] = "<|channel|>final<|message|>"
    params.write_text(yaml.safe_dump(values, sort_keys=False))
    asked.clear()
    run()
    assert asked and all(text.endswith(f"{end}<|channel|>final<|message|>") for text in asked)
    asked.clear()
    with_settings(params, prompt_format="plain")
    assert set(run()["prompt_format"]) == {"plain"} and not any("<|im_start|>" in text for text in asked)
    # Without a template there is no other form, and the artifact says so.
    with_settings(params, prompt_format="chat")
    edited_model(params, tiny_model, tmp_path / "bare", lambda path: (path / "chat_template.jinja").unlink())
    asked.clear()
    assert set(run()["prompt_format"]) == {"plain"} and recorded_format(tmp_path) == "plain"
    assert not any("<|im_start|>" in text for text in asked)
    assert "the model has no chat template; prompts are plain text" in capsys.readouterr().out


def gsm8k_rows(number):
    """Problems as GSM8K's own files have them."""
    return [
        {
            "question": f"Ann has {size} pens and buys 5. How many does she have?",
            "answer": f"She has {size} + 5 = <<{size}+5={size + 5}>>{size + 5} pens.\n#### {size + 5}",
        }
        for size in range(number)
    ]


def hub_copy(folder, **rows):
    """A data set in the layout of openai/gsm8k on the hub."""
    (folder / "main").mkdir(parents=True)
    for split, members in rows.items():
        pd.DataFrame(members).to_parquet(folder / "main" / f"{split}-00000-of-00001.parquet")
    files = [{"split": split, "path": f"main/{split}-*"} for split in rows]
    card = yaml.safe_dump({"configs": [{"config_name": "main", "data_files": files}]})
    (folder / "README.md").write_text(f"---\n{card}---\n")


def test_the_whole_of_gsm8k(run, params, source, tmp_path, capsys, monkeypatch):
    rows = {"train": gsm8k_rows(8), "test": gsm8k_rows(4)}
    (source / "gsm8k").mkdir()
    for split, members in rows.items():
        text = "".join(json.dumps(row) + "\n" for row in members)
        (source / "gsm8k" / f"{split}.jsonl").write_text(text)
    settings = with_settings(params, tasks=["tinyGSM8k", "gsm8k"])
    table = run()
    assert table.groupby(["task", "metric"]).size().to_dict() == {
        (task, metric): size
        for task, size in (("tinyGSM8k", ITEMS), ("gsm8k", 4))
        for metric in ("exact_match_flexible", "exact_match_strict")
    }
    assert "gsm8k: 4 items, where the published task has 1319" in capsys.readouterr().out
    # The hub's data set is its own, at its own commit, in Parquet.
    local = read_task(settings, "gsm8k", {})
    hub_copy(tmp_path / "hub", **rows)
    asked = []

    def fetched(*wanted):
        asked.append(wanted)
        return tmp_path / "hub"

    monkeypatch.setattr("pipeline.sources.retention_data.fetched", fetched)
    commit = "0123456789abcdef0123456789abcdef01234567"
    revisions = dict.fromkeys(["tinyGSM8k", "gsm8k"], commit)
    settings = with_settings(params, source="tinyBenchmarks", revisions=revisions)
    assert pinned_revisions(settings) == revisions
    downloaded = read_task(settings, "gsm8k", revisions)
    assert asked == [("openai/gsm8k", commit, "dataset")]
    assert {split: part.to_list() for split, part in downloaded.items()} == {
        split: part.to_list() for split, part in local.items()
    }
    # What `make fetch` downloads, and what must have a commit.
    wanted = [(item.key, item.repository, item.revision) for item in downloads(load_params(params))]
    assert ("retention.revisions.gsm8k", "openai/gsm8k", commit) in wanted
    with pytest.raises(ConfigError, match=r"tasks has gsm8k, which is evaluated alone or beside tinyGSM8k: add it"):
        with_settings(params, tasks=["tinyMMLU", "gsm8k"])


def test_baselines_have_no_scores(params):
    names = {"model": "embedded", "condition": "ssot"}
    with pytest.raises(ConfigError, match=r"axes\.retention\.score has no run .*ssot: .*base; .*soft; .*hard$"):
        find_run([PARTS["score-retention"]], load_params(params), names)


def test_a_missing_column_is_named(params, source):
    path = source / "tinyWinogrande" / "train.jsonl"
    path.write_text(path.read_text().replace('"option2"', '"choice2"'))
    with pytest.raises(ArtifactError) as error:
        read_task(load_params(params).retention, "tinyWinogrande", {})
    text = str(error.value)
    assert "tinyWinogrande needs the column 'option2' in the split 'train'" in text
    assert "it has sentence, option1, choice2, answer" in text


def test_a_missing_folder_is_named(run, source):
    shutil.rmtree(source / "tinyGSM8k")
    with pytest.raises(ArtifactError, match=r"no folder tinyGSM8k; it has tinyHellaswag, tinyMMLU, "):
        run()


def test_bad_data_shows_before_the_model_is_loaded(run, source, monkeypatch):
    monkeypatch.setattr(score_retention, "open_model", None)
    (source / "tinyGSM8k" / "train.jsonl").unlink()
    with pytest.raises(ArtifactError, match="tinyGSM8k needs the split 'train'; found: test"):
        run()


def test_too_few_examples(params, source):
    path = source / "tinyHellaswag" / "train.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:10]))
    with pytest.raises(ArtifactError, match="more than 10 examples in the split 'train'; it has 10"):
        read_task(load_params(params).retention, "tinyHellaswag", {})


def test_a_broken_file_is_named(params, source):
    (source / "tinyMMLU" / "test.jsonl").write_text('{"input_formatted": "a", "answ')
    with pytest.raises(ArtifactError, match="cannot read the data set .*tinyMMLU/test.jsonl"):
        read_task(load_params(params).retention, "tinyMMLU", {})


def test_an_empty_folder_is_named(params, source):
    for path in (source / "tinyMMLU").iterdir():
        path.unlink()
    with pytest.raises(ArtifactError, match="cannot read the data set .*tinyMMLU"):
        read_task(load_params(params).retention, "tinyMMLU", {})


@pytest.mark.parametrize("labels", [[1, 0, 1], [1, 1, 1], [0, 0, 0]])
def test_true_answers_come_first(params, source, labels):
    path = source / "tinyTruthfulQA" / "validation.jsonl"
    rows = [json.loads(line) for line in path.open()]
    rows[1]["mc2_targets"] = {"choices": ["a", "b", "c"], "labels": labels}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ArtifactError, match="item 1 of the split 'validation': the labels of mc2_targets"):
        read_task(load_params(params).retention, "tinyTruthfulQA", {})


def test_a_source_that_is_no_directory(params):
    with pytest.raises(ConfigError, match="data/nowhere is not a directory"):
        local_folder(with_settings(params, source="data/nowhere"), "tinyMMLU")
    assert local_folder(with_settings(params, source="tinyBenchmarks"), "tinyMMLU") is None


def test_pinned_commits_need_no_network(params):
    commit = "0123456789abcdef0123456789abcdef01234567"
    settings = with_settings(params, source="tinyBenchmarks", tasks=["tinyMMLU"], revisions={"tinyMMLU": commit})
    assert pinned_revisions(settings) == {"tinyMMLU": commit}


def test_parquet_files_and_copies_of_the_hub(params, source, tmp_path):
    settings = load_params(params).retention
    expected = read_task(settings, "tinyMMLU", {})
    assert set(expected) == {"test", "dev"}
    copy = tmp_path / "copies" / "tinyMMLU"
    copy.mkdir(parents=True)
    for split, rows in expected.items():
        rows.to_parquet(copy / f"{split}.parquet")
    found = read_task(with_settings(params, source=str(copy.parent)), "tinyMMLU", {})
    assert {split: rows.to_list() for split, rows in found.items()} == {
        split: rows.to_list() for split, rows in expected.items()
    }
    # The hub's repositories name their configurations and files in the card's header.
    (copy / "all").mkdir()
    for split in expected:
        (copy / f"{split}.parquet").rename(copy / "all" / f"{split}-00000-of-00001.parquet")
    files = [{"split": split, "path": f"all/{split}-*"} for split in expected]
    card = yaml.safe_dump({"configs": [{"config_name": "all", "data_files": files}]})
    (copy / "README.md").write_text(f"---\n{card}---\n")
    found = read_task(load_params(params).retention, "tinyMMLU", {})
    assert isinstance(found, datasets.DatasetDict) and found["test"].to_list() == expected["test"].to_list()


@pytest.mark.parametrize("task", TINY_TASKS)
def test_shipped_items_are_what_the_script_writes(task):
    splits = task_splits(task)
    folder = ROOT / "data" / "retention" / task
    assert {path.stem for path in folder.iterdir()} == set(splits)
    for split, rows in splits.items():
        assert [json.loads(line) for line in (folder / f"{split}.jsonl").open()] == rows
    assert len(splits[TASKS[task].split]) == 100
    texts = [json.dumps(row) for row in splits[TASKS[task].split]]
    assert len(set(texts)) == 100
