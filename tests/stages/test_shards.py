"""Sampling and scoring in several processes, each with a share of the prompts."""

import shutil

import pandas as pd
import pytest
import yaml

from pipeline.dag.execution import Shard, ShareDone
from pipeline.stages.resumable import ResumableMap
from tests.conftest import ROOT
from tests.forked import ForkedModule
from tests.stages.conftest import named_run

pytestmark = pytest.mark.slow


def test_shares_are_of_all_items_once_and_are_put_together(tmp_path):
    items, asked = {str(number): number for number in range(11)}, []

    def compute(missing):
        asked.append(list(missing.values()))
        return ({key: -item} for key, item in missing.items())

    for rank in range(3):
        with pytest.raises(ShareDone):
            ResumableMap(tmp_path / "values.jsonl", shard=Shard(rank, 3))(items, compute)
    # The last line of one process was being written when another read it, and is not another's to cut.
    (tmp_path / "values-1.jsonl").open("a").write('{"half')
    assert ResumableMap(tmp_path / "values.jsonl")(items, compute) == [-number for number in items.values()]
    assert [len(share) for share in asked] == [4, 4, 3]
    assert [item for share in asked for item in share] == list(range(11))
    assert (tmp_path / "values-1.jsonl").read_text().endswith('{"half')


def test_no_process_that_has_a_share_writes_a_table(dag, tmp_path):
    run = named_run("score-open@embedded-soft", dag.loaded)
    run.shard = Shard(0, 2)
    with pytest.raises(ShareDone):
        run.write_table(tmp_path / "soft.parquet", pd.DataFrame())
    assert not list(tmp_path.iterdir())


def test_two_processes_sample_and_score_what_one_does(dag, tmp_path):
    parameters = yaml.safe_load(dag.params.read_text())
    parameters |= {"artifacts": str(tmp_path / "artifacts")}
    parameters["distributed"]["shards"] = 2
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(parameters, sort_keys=False))
    # Only the anchors' replies of base, which scores read, are there before.
    own = shutil.ignore_patterns("evals", "scores", "soft.parquet", "soft.provenance.json")
    shutil.copytree(dag.root, tmp_path / "artifacts", ignore=own)
    options = ["--model", "embedded", "--condition", "soft", "--params", str(tmp_path / "params.yaml")]
    for stage in ("generate", "score"):
        log = tmp_path / f"{stage}.log"
        assert ForkedModule([f"pipeline.stages.{stage}", *options], ROOT, log).wait() == 0, log.read_text()
    compared = [path for folder in ("generations", "scores") for path in dag.root.glob(f"{folder}/*/embedded/soft*")]
    tables = [path.relative_to(dag.root) for path in compared if path.suffix == ".parquet"]
    assert len(tables) > 10
    differing = [
        path for path in tables if (tmp_path / "artifacts" / path).read_bytes() != (dag.root / path).read_bytes()
    ]
    # Batches of other replies round otherwise.
    assert {path.parts[:2] for path in differing} <= {("scores", "anchors"), ("scores", "questions")}
    for path in differing:
        found, expected = (pd.read_parquet(root / path) for root in (tmp_path / "artifacts", dag.root))
        pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    assert not list((tmp_path / "artifacts/unfinished").rglob("values*.jsonl"))
