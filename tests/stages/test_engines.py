"""The stage generate with each engine: one format, whole groups after an interruption, errors before any loading."""

import json
import signal
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.artifacts.locks import exclusive
from pipeline.config.params import load_params
from pipeline.engines.sampling import conditioned_engine
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.errors import BusyError, ConfigError
from pipeline.stages import generate
from tests import vllm_stand_in
from tests.completions_server import running_server
from tests.conftest import ROOT
from tests.stages.conftest import Dag
from tests.waiting import wait_until

AXIS, NUM_SAMPLES = "novelty", 10


@pytest.fixture(scope="module")
def dag(tiny_params, tmp_path_factory):
    """The part of the DAG that sampling needs, with its own artifacts."""
    values = yaml.safe_load(tiny_params.read_text())
    root = tmp_path_factory.mktemp("engines")
    values["artifacts"] = str(root / "artifacts")
    values["generate"][AXIS]["num_samples"] = NUM_SAMPLES
    (root / "params.yaml").write_text(yaml.safe_dump(values))
    dag = Dag(root / "params.yaml", root / "artifacts")
    dag.prepare()
    dag.train("soft")
    for condition in ("base", "soft"):
        dag.generate(condition, AXIS)
    return dag


@pytest.fixture(scope="module")
def server(dag, tmp_path_factory):
    """A server process over the tiny model and its trained adapter."""
    checkpoint = load_params(dag.params).model("embedded").checkpoint
    models = [f"embedded={checkpoint}", f"embedded-soft={checkpoint}:{dag.root / 'adapters' / 'embedded' / 'soft'}"]
    with running_server(models, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def with_engine(dag, tmp_path):
    """Writes params.yaml with another engine."""

    def write(kind, **section):
        values = yaml.safe_load(dag.params.read_text())
        values["engine"]["kind"] = kind
        if section:
            values["engine"][kind] |= section
        path = tmp_path / f"{kind}.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    return write


def arguments(dag, params, output, condition="base"):
    return {
        **dag.condition(condition),
        "params": params,
        "axis": AXIS,
        "prompts": dag.axis_prompts(AXIS),
        "output": output.with_suffix(".parquet"),
        "partial": output.with_suffix(".partial"),
    }


def run(dag, params, output, condition="base", **changes):
    generate.main(**arguments(dag, params, output, condition) | changes)
    return pd.read_parquet(output.with_suffix(".parquet"))


def check_format(dag, table, condition="base"):
    reference = pd.read_parquet(dag.generations(condition, AXIS))
    assert list(table.columns) == list(GENERATION_COLUMNS) and (table.dtypes == reference.dtypes).all()
    # The same rows with the same named seeds, whatever the engine drew with.
    for column in ("prompt_id", "sample_index", "seed"):
        assert table[column].tolist() == reference[column].tolist()
    assert table["seed"].tolist()[:4] == sample_seeds(
        load_params(dag.params).seed, (AXIS, "embedded", condition, table["prompt_id"][0]), 4
    )
    assert (table["num_tokens"] >= 1).all() and set(table["finish_reason"]) <= {"stop", "length"}
    assert (table["num_tokens"] <= load_params(dag.params).generate.novelty.max_new_tokens).all()


@pytest.mark.parametrize("condition", ["base", "soft"])
def test_vllm(dag, with_engine, tmp_path, monkeypatch, condition):
    vllm_stand_in.install(monkeypatch)
    params = with_engine("vllm", samples_per_request=3, requests_per_call=10)
    table = run(dag, params, tmp_path / "whole", condition)
    check_format(dag, table, condition)
    (llm,) = vllm_stand_in.LLM.calls
    sampled = [item for item in llm.requests if item[1].logprobs is None]
    assert all((lora is not None) == (condition == "soft") for _, _, lora in sampled)
    assert [params.n for _, params, _ in sampled] == [3, 3, 3, 1] * table["prompt_id"].nunique()
    provenance = json.loads((tmp_path / "whole.provenance.json").read_text())
    assert provenance["parameters"]["engine"] == "vllm" and provenance["samples_per_request"] == 3


def test_server_in_two_halves(dag, server, with_engine, tmp_path):
    params = with_engine("openai", base_url=server.address, samples_per_request=2, max_concurrency=4, max_retries=0)
    whole = run(dag, params, tmp_path / "whole", "soft")
    check_format(dag, whole, "soft")
    groups = len(whole) // 2
    # The three probes of the adapter come first.
    server.behave(broken_from=3 + groups // 2)
    with pytest.raises(EngineError, match="failed with status 500"):
        run(dag, params, tmp_path / "halves", "soft")
    kept = sum(len(path.read_text().splitlines()) for path in (tmp_path / "halves.partial").rglob("*.jsonl"))
    assert kept == 2 * (groups // 2) and not (tmp_path / "halves.parquet").exists()
    # A kill in the middle of a write: of a group of two samples, one line is missing.
    journal = next((tmp_path / "halves.partial").rglob("*.jsonl"))
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    server.behave()
    pd.testing.assert_frame_equal(run(dag, params, tmp_path / "halves", "soft"), whole)
    assert server.counts()["requests"] - 3 == groups - kept // 2 + 1
    assert not (tmp_path / "halves.partial").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_does_not_wait_for_requests_under_way(dag, server, with_engine, tmp_path, number, status):
    params = with_engine("openai", base_url=server.address, samples_per_request=2, max_concurrency=3)
    server.behave()
    whole = run(dag, params, tmp_path / "whole")
    answered = len(whole) // 4
    server.behave(silent_from=answered)
    options = []
    for name, value in arguments(dag, params, tmp_path / "stopped").items():
        options += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    command = [sys.executable, "-m", "pipeline.stages.generate", *options]
    stage = subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.PIPE)
    wait_until(lambda: server.counts()["requests"] >= answered + 3, stage)
    stage.send_signal(number)
    # A request would be waited for for ten minutes, and tried again.
    _, errors = stage.communicate(timeout=300)
    assert stage.returncode == status, errors
    assert errors.splitlines()[-1].endswith("finished parts are kept and the next run resumes")
    assert "Traceback" not in errors and "ignored" not in errors
    kept = [path.read_text().splitlines() for path in (tmp_path / "stopped.partial").rglob("*.jsonl")]
    assert sum(map(len, kept)) == 2 * answered and not (tmp_path / "stopped.parquet").exists()
    server.behave()
    pd.testing.assert_frame_equal(run(dag, params, tmp_path / "stopped"), whole)
    assert server.counts()["requests"] == len(whole) // 2 - answered


def test_another_number_of_samples_per_request_starts_over(dag, server, with_engine, tmp_path):
    server.behave(broken_from=5)
    with pytest.raises(EngineError, match="failed with status 500"):
        run(
            dag,
            with_engine("openai", base_url=server.address, samples_per_request=2, max_retries=0),
            tmp_path / "mixed",
        )
    server.behave()
    params = with_engine("openai", base_url=server.address, samples_per_request=4, max_retries=0)
    mixed = run(dag, params, tmp_path / "mixed")
    pd.testing.assert_frame_equal(mixed, run(dag, params, tmp_path / "whole"))


@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_constrained_decoding_is_refused_before_anything_is_loaded(dag, with_engine, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(generate, "open_engine", None)
    monkeypatch.setattr(generate, "request_encoder", None)
    tries = dag.root / "tries" / "embedded" / "eval"
    with pytest.raises(ConfigError, match=f"engine.kind: {kind} cannot restrict decoding to a trie"):
        run(
            dag,
            with_engine(kind),
            tmp_path / "x",
            "constrained",
            axis="structured",
            constraint=tries,
            prompts=dag.prompts,
        )
    with pytest.raises(ConfigError, match="cannot restrict decoding"):
        conditioned_engine.open_engine(
            load_params(with_engine(kind)), "embedded", "constrained", tmp_path, tmp_path / "no.json", "probe"
        )


def test_two_runs_do_not_share_a_scratch_directory(dag, with_engine, tmp_path):
    held = exclusive(tmp_path / "x.partial", "generate novelty embedded base")
    with held, pytest.raises(BusyError, match="generate novelty embedded base is already running"):
        run(dag, with_engine("transformers"), tmp_path / "x")
