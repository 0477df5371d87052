"""From a hub to the cache, and from the cache to the stages without network: real processes against a local hub."""

import gzip
import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from pipeline.compose import compose_params, render
from pipeline.config.params import load_params
from pipeline.dag.execution import execute, named_run
from pipeline.errors import ConfigError
from pipeline.sources import fetch
from pipeline.sources.pin import CHECKPOINT_FILES, TOKENIZER_FILES, downloads
from tests.conftest import ROOT, TINY_OVERRIDES
from tests.hub_server import commit_of, hub

pytestmark = pytest.mark.slow

MODEL = "Qwen/Qwen3-0.6B"
CLASSIFIER, REWARD = "yimingzhang/deberta-v3-large-generation-similarity", "Skywork/Skywork-Reward-Gemma-2-27B-v0.2"

# What stages do first, in a process of its own; each loads from the cache or fails.
STAGES = """
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.artifacts.model_report import model_revision
from pipeline.config.params import load_params
from pipeline.dag.execution import execute, named_run
from pipeline.engines.loading.model import load_model
from pipeline.engines.judges.text_judges import classifier_identity, open_classifier
from pipeline.engines.judges.text_judges import open_sequence_reward, reward_identity
from pipeline.errors import ArtifactError
from pipeline.sources import retention_data
from pipeline.sources.repository import fetched
from pipeline.axes.paloma.score import open_source

config = load_params(Path(sys.argv[1]))
for name in config.models:
    run = named_run(f"check-model@{name}", config)
    execute(run)
    load_model(config.models[name], model_revision(run.paths["output"]), "cpu")
execute(named_run("build-prompts-novelty@novelty", config))
revisions = retention_data.pinned_revisions(config.retention)
print({split: len(rows) for split, rows in retention_data.read_task(config.retention, "tinyMMLU", revisions).items()})
documents, _ = open_source(config.paloma)
print(sorted(str(path.relative_to(documents)) for path in documents.rglob("*.gz")))
novelty = config.evaluate.novelty
open_classifier(novelty.classifier, classifier_identity(novelty.classifier), "cpu")
open_sequence_reward(novelty.reward, reward_identity(novelty.reward), "cpu")
try:
    fetched("yimingzhang/novelty-bench", "0" * 40, "dataset")
except ArtifactError as error:
    print(error)
"""


def write_data_sets(root):
    """NoveltyBench's prompts, a tiny task and a slice of PALOMA in the hub's layouts."""
    novelty = root / "yimingzhang" / "novelty-bench"
    (novelty / "data").mkdir(parents=True)
    for split in ("curated", "wildchat"):
        rows = [{"id": f"{split}-{number}", "prompt": f"Tell me about {number}."} for number in range(3)]
        pd.DataFrame(rows).to_parquet(novelty / "data" / f"{split}-00000-of-00001.parquet")
    (novelty / "results" / "run" / "nb-curated").mkdir(parents=True)
    (novelty / "results" / "run" / "nb-curated" / "generations.jsonl").write_text('{"id": "curated-0"}\n')
    files = "".join(f"  - split: {split}\n    path: data/{split}-*\n" for split in ("curated", "wildchat"))
    (novelty / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n")
    mmlu = root / "tinyBenchmarks" / "tinyMMLU"
    (mmlu / "all").mkdir(parents=True)
    for split in ("test", "dev"):
        rows = pd.read_json(ROOT / "data" / "retention" / "tinyMMLU" / f"{split}.jsonl", lines=True)
        rows.to_parquet(mmlu / "all" / f"{split}-00000-of-00001.parquet")
    files = "".join(f"  - split: {split}\n    path: all/{split}-*\n" for split in ("test", "dev"))
    (mmlu / "README.md").write_text(f"---\nconfigs:\n- config_name: all\n  data_files:\n{files}---\n")
    for split in ("test", "val"):
        path = root / "allenai" / "paloma" / "ptb" / split / f"{split}.jsonl.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(json.dumps({"text": "some text"}).encode()))


@pytest.fixture(scope="module")
def hub_root(stand_ins, tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    for stand_in, name in (("qwen3", MODEL), ("deberta", CLASSIFIER), ("skywork", REWARD)):
        shutil.copytree(stand_ins[stand_in], root / "models" / name)
    # The same weights once more, which no stage reads; and an evaluator with nothing but PyTorch weights.
    (root / "models" / MODEL / "original").mkdir()
    (root / "models" / MODEL / "original" / "model.safetensors").write_bytes(b"0" * 1000)
    classifier = root / "models" / CLASSIFIER
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    torch.save(load_file(classifier / "model.safetensors"), classifier / "pytorch_model.bin")
    (classifier / "model.safetensors").unlink()
    write_data_sets(root / "datasets")
    return root


def write_params(path, hub_root):
    """The paper's experiment with one model and small data sets, each at its commit."""
    values = compose_params(ROOT / "conf", ["experiment=paper", *TINY_OVERRIDES, f"artifacts={path.parent}"])
    values["models"] = {name: values["models"][name] for name in ("qwen3_0_6b",)}
    for model in values["models"].values():
        model["revision"] = commit_of(hub_root / "models" / model["checkpoint"])
    paper = yaml.safe_load((ROOT / "conf" / "evaluate" / "paper.yaml").read_text())["novelty"]
    values["evaluate"]["novelty"] = paper
    paper["classifier"] |= {
        "revision": commit_of(hub_root / "models" / CLASSIFIER),
        "tokenizer": CLASSIFIER,
        "tokenizer_revision": commit_of(hub_root / "models" / CLASSIFIER),
    }
    paper["reward"]["revision"] = commit_of(hub_root / "models" / REWARD)
    paper["reward"]["dtype"] = "float32"
    data = hub_root / "datasets"
    values["prompts"]["novelty"] |= {
        "source": "yimingzhang/novelty-bench",
        "splits": ["curated", "wildchat"],
        "revision": commit_of(data / "yimingzhang" / "novelty-bench"),
    }
    values["retention"] |= {
        "source": "tinyBenchmarks",
        "tasks": ["tinyMMLU"],
        "revisions": {"tinyMMLU": commit_of(data / "tinyBenchmarks" / "tinyMMLU")},
    }
    values["paloma"] |= {
        "source": "allenai/paloma",
        "slices": ["ptb"],
        "revision": commit_of(data / "allenai" / "paloma"),
    }
    path.write_text(render(values, []))
    return path


def test_everything_of_the_hub_is_listed_and_needs_a_commit(hub_root, tmp_path):
    params = write_params(tmp_path / "params.yaml", hub_root)
    config = load_params(params)
    listed = {source.key: (source.repository, source.files) for source in downloads(config)}
    assert listed == {
        "models.qwen3_0_6b.revision": (MODEL, CHECKPOINT_FILES),
        "prompts.novelty.revision": ("yimingzhang/novelty-bench", None),
        "evaluate.novelty.classifier.revision": (CLASSIFIER, CHECKPOINT_FILES),
        "evaluate.novelty.classifier.tokenizer_revision": (CLASSIFIER, TOKENIZER_FILES),
        "evaluate.novelty.reward.revision": (REWARD, CHECKPOINT_FILES),
        "retention.revisions.tinyMMLU": ("tinyBenchmarks/tinyMMLU", None),
        "paloma.revision": ("allenai/paloma", ("ptb/test/*.jsonl.gz",)),
    }
    values = yaml.safe_load(params.read_text())
    values["paloma"]["revision"] = None
    params.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="paloma.revision: no commit; `make pin`"):
        fetch.main(params)


def test_stages_run_from_the_cache(hub_root, tmp_path):
    params = write_params(tmp_path / "params.yaml", hub_root)
    execute(named_run("build-prompts-structured", load_params(params)))
    environment = os.environ | {"HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": ""}
    environment.pop("HF_HUB_OFFLINE", None)

    def run(*command, **changes):
        return subprocess.run(
            [sys.executable, *command], env=environment | changes, cwd=ROOT, capture_output=True, text=True, check=False
        )

    with hub(hub_root) as (endpoint, requests):
        moved = shutil.move(hub_root / "models" / REWARD, tmp_path / "moved")
        first = run("-m", "pipeline.sources.fetch", "--params", str(params), HF_ENDPOINT=endpoint)
        assert first.returncode == 1 and "1 source(s) not fetched; run it again for them:" in first.stderr
        assert REWARD in first.stderr and f"{MODEL}: 0.00 GB in " in first.stdout
        shutil.move(moved, hub_root / "models" / REWARD)
        again = run("-m", "pipeline.sources.fetch", "--params", str(params), HF_ENDPOINT=endpoint)
        assert again.returncode == 0, again.stderr
        downloaded = [line for line in requests if line.startswith("GET") and "/resolve/" in line]
        # Each file once, and none of those that stages do not read.
        assert len(downloaded) == len(set(downloaded))
        assert not any("original" in line or "/val/" in line or "results" in line for line in downloaded)

        requests.clear()
        stages = run("-c", STAGES, str(params), HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="1")
        assert stages.returncode == 0, stages.stderr[-2000:]
        assert "['ptb/test/test.jsonl.gz']" in stages.stdout and "'test':" in stages.stdout
        assert requests == []
        # The commit that was read is in the records.
        for record in ("prompts/novelty", "models/qwen3_0_6b"):
            found = json.loads((tmp_path / f"{record}.provenance.json").read_text())["found"]
            assert len(found["revision"]) == 40
        assert len(pd.read_parquet(tmp_path / "prompts" / "novelty.parquet")) == 6
        # What is not in the cache is named, with what to do.
        assert f"the data set yimingzhang/novelty-bench at {'0' * 40} is not in the cache" in stages.stdout
        assert "`python -m pipeline.sources.fetch` downloads it" in stages.stdout
