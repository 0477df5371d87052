"""The stage generate with each engine: one format, whole groups after an interruption, errors before any loading."""

import json

import pandas as pd
import pytest

from pipeline.artifacts.generations import GENERATION_COLUMNS
from pipeline.config.params import load_params
from pipeline.engines.sampling.generate import sample_seeds
from pipeline.engines.sampling.text_engine import EngineError
from pipeline.errors import ConfigError
from pipeline.stages import generate_axis
from tests import vllm_stand_in
from tests.completions_server import Server
from tests.composition import write_changed
from tests.stages.conftest import Dag, named_run, run_stage

AXIS, NUM_SAMPLES = "novelty", 4


@pytest.fixture(scope="module")
def dag(dag, tmp_path_factory):
    """The session's prompts, models and adapters with more samples, and artifacts of its own for what is sampled."""
    root = tmp_path_factory.mktemp("engines")
    changes = {f"generate__{AXIS}__num_samples": NUM_SAMPLES, "generate__constrained__enabled": True}
    other = Dag(write_changed(dag.params, root / "params.yaml", artifacts=str(root / "artifacts"), **changes))
    other.root.mkdir()
    for name in ("prompts", "models", "tries", "adapters"):
        (other.root / name).symlink_to(dag.root / name)
    for condition in ("base", "soft"):
        other.run(f"generate-{AXIS}@embedded-{condition}")
    return other


@pytest.fixture
def server(dag, monkeypatch):
    """A server over the tiny model and its trained adapter."""
    checkpoint, adapter = load_params(dag.params).models["embedded"].checkpoint, dag.root / "adapters/embedded/soft"
    server = Server(**{"embedded": (checkpoint, None), "embedded-soft": (checkpoint, adapter)})
    server.install(monkeypatch)
    return server


@pytest.fixture
def with_engine(dag, tmp_path):
    """Writes params.yaml with another engine."""

    def write(kind, **section):
        changes = {f"engine__{kind}__{name}": value for name, value in section.items()}
        return write_changed(dag.params, tmp_path / f"{kind}.yaml", engine__kind=kind, **changes)

    return write


def run(params, output, condition="base"):
    """Sample into a file of its own; the table. Unfinished work is where that of all runs of the condition is."""
    run_stage(params, f"generate-{AXIS}@embedded-{condition}", output=output.with_suffix(".parquet"))
    return pd.read_parquet(output.with_suffix(".parquet"))


def unfinished(params, condition="base", together=2):
    """Where unfinished work of a run is, by the number of samples that are drawn together."""
    directory = named_run(f"generate-{AXIS}@embedded-{condition}", load_params(params)).unfinished
    return directory.with_name(f"{directory.name}-{together}")


def journals(directory):
    """The samples of every journal in it by line: what an engine handed over together."""
    return [
        [list(json.loads(line).values()) for line in path.read_text().splitlines()]
        for path in directory.rglob("*.jsonl")
    ]


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


def test_checkpoint_defaults_reach_the_samples(dag, tmp_path):
    """The tiny checkpoint's generation_config.json has top_k 1, under which every sample of a prompt is the same."""
    changes = {f"generate__{AXIS}__checkpoint_defaults": ["top_k"]}
    cut = run(write_changed(dag.params, tmp_path / "params.yaml", **changes), tmp_path / "cut")
    check_format(dag, cut)
    assert set(cut.groupby("prompt_id")["text"].nunique()) == {1}
    assert pd.read_parquet(dag.generations("base", AXIS)).groupby("prompt_id")["text"].nunique().max() > 1


@pytest.mark.parametrize("condition", ["base", "soft"])
def test_vllm(dag, with_engine, tmp_path, monkeypatch, condition):
    vllm_stand_in.install(monkeypatch)
    params = with_engine("vllm", samples_per_request=3, requests_per_call=10)
    table = run(params, tmp_path / "whole", condition)
    check_format(dag, table, condition)
    (llm,) = vllm_stand_in.LLM.calls
    sampled = [item for item in llm.requests if item[1].logprobs is None]
    assert all((lora is not None) == (condition == "soft") for _, _, lora in sampled)
    assert [params.n for _, params, _ in sampled] == [3, 1] * table["prompt_id"].nunique()
    provenance = json.loads((tmp_path / "whole.provenance.json").read_text())
    assert provenance["parameters"]["engine.kind"] == "vllm"


def test_server_in_two_halves(dag, server, with_engine, tmp_path):
    params = with_engine("openai", base_url=server.address, samples_per_request=2, max_concurrency=4, max_retries=0)
    whole = run(params, tmp_path / "whole", "soft")
    check_format(dag, whole, "soft")
    groups = len(whole) // 2
    # The three probes of the adapter come first.
    server.behave(broken_from=3 + groups // 2)
    with pytest.raises(EngineError, match="500.*, in 1 attempts"):
        run(params, tmp_path / "halves", "soft")
    partial = unfinished(params, "soft")
    kept = sum(len(batch) for lines in journals(partial) for batch in lines)
    assert kept == 2 * (groups // 2) and not (tmp_path / "halves.parquet").exists()
    # A kill in the middle of a write: the last line is cut.
    journal = next(partial.rglob("*.jsonl"))
    journal.write_text(journal.read_text()[:-5])
    server.behave()
    pd.testing.assert_frame_equal(run(params, tmp_path / "halves", "soft"), whole)
    assert server.now.requests - 3 == groups - kept // 2 + 1
    assert not partial.exists()


@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_constrained_decoding_is_refused_before_anything_is_loaded(dag, with_engine, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(generate_axis, "open_engine", None)
    with pytest.raises(ConfigError, match=f"engine.kind: {kind} cannot restrict decoding to a trie"):
        run_stage(
            with_engine(kind), "generate-baselines-structured@embedded-constrained", output=tmp_path / "x.parquet"
        )
