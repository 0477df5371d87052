"""PALOMA's stages: tables, resuming by file, BOS variants, pairing with base, errors, a kill."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pipeline.axes.paloma import score as score_paloma
from pipeline.config.params import load_params
from pipeline.errors import ArtifactError, ConfigError
from tests.composition import write_changed
from tests.engines.engine_cases import save_adapter
from tests.stages.conftest import run_stage


def write_slice(root: Path, name: str, texts, file: str = "x") -> Path:
    path = root / name / "test" / f"{file}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode(), mtime=0))
    return path


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words = np.array(["Generate", "exactly", "ONE", "random", "number", "Output", "ONLY", "the"])
    return [" ".join(rng.choice(words, size=rng.integers(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def workplace(tiny_model, tiny_params, tmp_path_factory):
    """Parameters, slices, the model's report and one adapter."""
    root = tmp_path_factory.mktemp("paloma")
    write_slice(root / "documents", "one", sentences(12))
    write_slice(root / "documents", "two", sentences(5, 1), "a")
    write_slice(root / "documents", "two", sentences(6, 2), "b")
    values = yaml.safe_load(tiny_params.read_text())
    values["paloma"] |= {"slices": ["two", "one"], "window": 16, "stride": 8, "tokens_per_pass": 64, "split": "test"}
    values["paloma"] |= {"bos": ["model"], "max_documents_per_slice": None}
    values["paloma"]["source"] = str(root / "documents")
    values["artifacts"] = str(root / "artifacts")
    # Conditions keep the order of the methods.
    (root / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    report = root / "artifacts" / "models" / "embedded.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"revision": None}))
    config = load_params(root / "params.yaml").models["embedded"]
    save_adapter(config, root / "artifacts" / "adapters" / "embedded" / "soft")
    return root


def score(root: Path, condition: str, output: Path, params: Path | None = None) -> pd.DataFrame:
    """Score under the parameters of a workplace, or others, into a file of its own; the table."""
    run_stage(params or root / "params.yaml", f"score-paloma@embedded-{condition}", output=output)
    return pd.read_parquet(output)


@pytest.fixture(scope="module")
def scored(workplace) -> Path:
    for condition in ("base", "soft"):
        score(workplace, condition, workplace / "scores" / f"{condition}.parquet")
    return workplace / "scores"


def test_scores(workplace, scored):
    table = pd.read_parquet(scored / "base.parquet")
    assert tuple(table.columns) == score_paloma.DOCUMENT_SCORE_COLUMNS
    places = list(table[["slice", "file", "document"]].itertuples(index=False, name=None))
    assert places == [
        *(("two", "a.jsonl.gz", i) for i in range(5)),
        *(("two", "b.jsonl.gz", i) for i in range(6)),
        *(("one", "x.jsonl.gz", i) for i in range(12)),
    ]
    assert set(table["bos"]) == {"model"} and not table["starts_with_bos"].any()
    texts = [*sentences(5, 1), *sentences(6, 2), *sentences(12)]
    assert table["num_bytes"].tolist() == list(map(len, texts))
    assert (table["nll_nats"] > 0).sum() == (table["num_tokens"] > 0).sum() > 15
    found = json.loads((scored / "base.provenance.json").read_text())["found"]
    assert list(found["documents"]) == ["two/a.jsonl.gz", "two/b.jsonl.gz", "one/x.jsonl.gz"]
    soft = pd.read_parquet(scored / "soft.parquet")
    assert not np.allclose(soft["nll_nats"], table["nll_nats"])
    assert (soft["num_tokens"] == table["num_tokens"]).all()


@pytest.fixture(scope="module")
def bos_workplace(workplace, tiny_model, tmp_path_factory):
    """The same with a tokenizer that puts a BOS token before plain text."""
    from tokenizers import processors
    from transformers import AutoTokenizer

    root = tmp_path_factory.mktemp("bos")
    shutil.copytree(tiny_model, root / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    bos = "<|endoftext|>"
    tokenizer.bos_token = bos
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.convert_tokens_to_ids(bos))]
    )
    tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    tokenizer.save_pretrained(root / "model")
    changes = {"models__embedded__checkpoint": str(root / "model"), "artifacts": str(root / "artifacts")}
    write_changed(workplace / "params.yaml", root / "params.yaml", paloma__bos=["model", "none"], **changes)
    for name in ("models", "adapters"):
        shutil.copytree(workplace / "artifacts" / name, root / "artifacts" / name)
    return root


def test_both_variants_where_the_model_has_a_bos_token(bos_workplace, scored):
    for condition in ("base", "soft"):
        score(bos_workplace, condition, bos_workplace / "scores" / f"{condition}.parquet")
    table = pd.read_parquet(bos_workplace / "scores" / "base.parquet")
    with_bos, without = (table[table["bos"] == variant].reset_index() for variant in ("model", "none"))
    assert len(with_bos) == len(without) == 23
    assert with_bos["starts_with_bos"].all() and not without["starts_with_bos"].any()
    assert (with_bos["num_tokens"] == without["num_tokens"] + 1).all()
    # Without the BOS token this is the model whose tokenizer has none.
    plain = pd.read_parquet(scored / "base.parquet")
    np.testing.assert_allclose(without["nll_nats"], plain["nll_nats"], rtol=1e-5)
    assert not np.allclose(with_bos["nll_nats"], without["nll_nats"])

    metrics, _ = evaluate(bos_workplace, bos_workplace / "scores", bos_workplace / "evals")["soft"]
    both = ("perplexity", "bits_per_byte")
    assert {row["metric"] for row in metrics} == {*both, *(f"{name}_without_bos" for name in both)}


def evaluate(workplace, scores: Path, output: Path) -> dict[str, tuple[list[dict], pd.DataFrame]]:
    """Metrics and sums over slices by condition, of which there are those with a file of scores."""
    conditions = [name for name in ("base", "soft", "hard") if (scores / f"{name}.parquet").exists()]
    params = write_changed(workplace / "params.yaml", output.with_suffix(".yaml"), conditions=conditions)
    run_stage(params, "eval-paloma@embedded", scores=scores, output=output)
    return {
        name: (
            json.loads((output / name / "metrics.json").read_text())["metrics"],
            pd.read_parquet(output / name / "per_prompt.parquet"),
        )
        for name in conditions
    }


def test_evaluation(workplace, scored, tmp_path):
    scores = tmp_path / "scores"
    shutil.copytree(scored, scores)
    shutil.copy(scored / "base.parquet", scores / "hard.parquet")
    found = evaluate(workplace, scores, tmp_path / "evals")
    metrics, slices = found["soft"]
    assert [row["split"] for row in metrics if row["metric"] == "perplexity"] == ["two", "one", "all"]
    assert {(row["axis"], row["model"], row["condition"], row["family"]) for row in metrics} == {
        ("paloma", "embedded", "soft", "")
    }
    own, other = (pd.read_parquet(scored / f"{condition}.parquet") for condition in ("soft", "base"))
    values = {(row["split"], row["metric"]): row for row in metrics}
    assert values["all", "perplexity"]["value"] == pytest.approx(
        np.exp(own["nll_nats"].sum() / own["num_tokens"].sum())
    )
    bits = values["all", "bits_per_byte"]
    change = (own["nll_nats"].sum() - other["nll_nats"].sum()) / (np.log(2) * own["num_bytes"].sum())
    assert bits["change"] == pytest.approx(change) and bits["change_low"] < change < bits["change_high"]
    assert slices["split"].tolist() == ["two", "one"]
    assert slices["num_bytes"].sum() == own["num_bytes"].sum()
    # The same condition twice is a difference of exactly nothing.
    assert {row["change"] for row in found["hard"][0] if row["metric"] == "bits_per_byte"} == {0.0}


def test_errors_come_before_the_model_is_loaded(workplace, tmp_path, monkeypatch):
    monkeypatch.setattr(score_paloma, "open_model", lambda *_: pytest.fail("the model was loaded"))

    def run(**changes):
        params = write_changed(workplace / "params.yaml", tmp_path / "params.yaml", **changes)
        score(workplace, "base", tmp_path / "x.parquet", params)

    with pytest.raises(ArtifactError, match="slice 'three' has no files"):
        run(paloma__slices=["one", "three"])
    with pytest.raises(ConfigError, match="paloma: slices .* has a slice twice"):
        run(paloma__slices=["one", "two", "one"])
    with pytest.raises(ConfigError, match="paloma: stride .* must be less than window"):
        run(paloma__window=16, paloma__stride=16)
    cut = write_slice(tmp_path / "cut", "two", sentences(400))
    write_slice(tmp_path / "cut", "one", sentences(4))
    cut.write_bytes(cut.read_bytes()[:-60])
    with pytest.raises(ArtifactError, match=r"two/test/x\.jsonl\.gz: the gzip stream is cut off"):
        run(paloma__source=str(tmp_path / "cut"))
