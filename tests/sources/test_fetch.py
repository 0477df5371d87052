"""What is downloaded from the hub, into which the stages look without network."""

import pytest
import yaml

from pipeline.compose import compose_params
from pipeline.config.params import load_params
from pipeline.errors import ArtifactError, ConfigError
from pipeline.sources import fetch
from pipeline.sources.pin import CHECKPOINT_FILES, TOKENIZER_FILES, downloads
from pipeline.sources.repository import fetched
from tests.composition import write_changed
from tests.conftest import ROOT, TINY_OVERRIDES

COMMIT, MODEL = "0" * 40, "Qwen/Qwen3-0.6B"
CLASSIFIER, REWARD = "yimingzhang/deberta-v3-large-generation-similarity", "Skywork/Skywork-Reward-Gemma-2-27B-v0.2"


@pytest.fixture
def params(tmp_path):
    """The paper's experiment with one model and small data sets, each at its commit."""
    values = compose_params(ROOT / "conf", ["experiment=paper", *TINY_OVERRIDES])
    values["models"] = {"qwen3_0_6b": values["models"]["qwen3_0_6b"] | {"revision": COMMIT}}
    paper = yaml.safe_load((ROOT / "conf" / "evaluate" / "paper.yaml").read_text())["novelty"]
    values["evaluate"]["novelty"] = paper
    paper["classifier"] |= {"revision": COMMIT, "tokenizer_revision": COMMIT}
    paper["reward"]["revision"] = COMMIT
    values["prompts"]["novelty"] |= {"source": "yimingzhang/novelty-bench", "revision": COMMIT}
    values["retention"] |= {"source": "tinyBenchmarks", "tasks": ["tinyMMLU"], "revisions": {"tinyMMLU": COMMIT}}
    values["paloma"] |= {"source": "allenai/paloma", "slices": ["ptb"], "revision": COMMIT}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_everything_of_the_hub_is_listed_and_needs_a_commit(params):
    listed = {source.key: (source.repository, source.files) for source in downloads(load_params(params))}
    assert listed == {
        "models.qwen3_0_6b.revision": (MODEL, CHECKPOINT_FILES),
        "prompts.novelty.revision": ("yimingzhang/novelty-bench", None),
        "evaluate.novelty.classifier.revision": (CLASSIFIER, CHECKPOINT_FILES),
        "evaluate.novelty.classifier.tokenizer_revision": ("microsoft/deberta-v3-large", TOKENIZER_FILES),
        "evaluate.novelty.reward.revision": (REWARD, CHECKPOINT_FILES),
        "retention.revisions.tinyMMLU": ("tinyBenchmarks/tinyMMLU", None),
        "paloma.revision": ("allenai/paloma", ("ptb/test/*.jsonl.gz",)),
    }
    write_changed(params, params, paloma__revision=None)
    with pytest.raises(ConfigError, match="paloma.revision: no commit; `make pin`"):
        fetch.main(params)


def test_what_is_fetched_and_what_could_not_be(params, tmp_path, monkeypatch, capsys):
    asked = []

    def snapshot_download(repository, repo_type, revision, allow_patterns, ignore_patterns):
        asked.append((repository, repo_type, allow_patterns))
        if repository == REWARD:
            raise OSError("no network\nand more")
        directory = tmp_path / repository
        directory.mkdir(parents=True, exist_ok=True)
        if repository != CLASSIFIER:
            (directory / "model.safetensors").touch()
        return str(directory)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(ConfigError, match=rf"1 source\(s\) not fetched; .*\n  cannot fetch {REWARD}: no network$"):
        fetch.main(params)
    assert f"{MODEL}: 0.00 GB in {tmp_path / MODEL}" in capsys.readouterr().out
    # An evaluator with PyTorch weights alone.
    assert [files for repository, _, files in asked if repository == CLASSIFIER] == [CHECKPOINT_FILES, ("*.bin",)]
    assert ("allenai/paloma", "dataset", ("ptb/test/*.jsonl.gz",)) in asked


def test_what_is_not_in_the_cache_is_named_where_there_is_no_network(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    message = rf"the data set owner/data at {'1' * 40} is not in the cache .*`python -m pipeline.sources.fetch`"
    with pytest.raises(ArtifactError, match=message):
        fetched("owner/data", "1" * 40, "dataset")
