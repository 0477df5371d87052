"""The restricted unpickler, the conversion of the published structure and the .npz round trip."""

import collections
import os
import pickle

import numpy as np
import pytest

from pipeline.artifacts.irt_artifact import FIELDS, convert_published, read_irt, read_published, write_irt
from pipeline.artifacts.storage import sha256_file
from pipeline.core.retention.irt import SCENARIOS
from pipeline.errors import ArtifactError
from scripts.make_irt_artifact import synthetic_content
from tests.conftest import ROOT


def saved(path, content, protocol=4):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path, sha256_file(path)


def small_content():
    """Two benchmarks in the published structure, small enough to work out by hand."""

    def bench(sizes, seen, b):
        positions, first = {}, 0
        for name, size in sizes.items():
            positions[name], first = list(range(first, first + size)), first + size
        a = np.arange(2 * first, dtype=float).reshape(1, 2, first)
        return {
            "irt_parameters": {"A": a, "B": b(first)},
            "seen_examples": [position for name in sizes for position in seen[name]],
            "examples_weights": {name: np.full(len(seen[name]), 1 / len(seen[name])) for name in sizes},
            "optimal_lambdas": dict.fromkeys(sizes, np.float64(0.25)),
            "scenarios_position": positions,
            "subscenarios_position": {name: {"only": positions[name]} for name in sizes},
        }

    sizes = {"harness_truthfulqa_mc_0": 3, "gsm8k": 4, "winogrande": 2, "arc": 2, "hellaswag": 5}
    seen = {"harness_truthfulqa_mc_0": [2, 0], "gsm8k": [4], "winogrande": [8], "arc": [9], "hellaswag": [11, 15]}
    mmlu = bench({"mmlu": 4}, {"mmlu": [1, 3]}, lambda n: np.ones((1, 1, n)))
    mmlu["subscenarios_position"]["mmlu"] = {"algebra": [0, 1, 2], "anatomy": [3]}
    return {"lb": bench(sizes, seen, lambda n: np.arange(2 * n, dtype=float).reshape(1, 2, n) / 10), "mmlu": mmlu}


def assert_equal(scenarios, expected, rtol=0):
    assert list(scenarios) == list(expected) == list(SCENARIOS.values())
    for name, scenario in scenarios.items():
        for field in FIELDS:
            np.testing.assert_allclose(getattr(scenario, field), getattr(expected[name], field), rtol=rtol)


def test_conversion_by_hand():
    scenarios = convert_published(small_content(), "x")
    # 16 items in "lb"; GSM8K has positions 3 to 6, dimension 1's numbers start at 16.
    gsm8k = scenarios["gsm8k"]
    assert gsm8k.discriminations.tolist() == [[3, 4, 5, 6], [19, 20, 21, 22]]
    assert gsm8k.offsets == pytest.approx([2.2, 2.4, 2.6, 2.8])
    assert gsm8k.seen.tolist() == [1] and gsm8k.mixing_weight == 0.25
    # Under its old name, the seen items in the task's order.
    assert scenarios["truthfulqa"].seen.tolist() == [2, 0]
    # B with one number per item is subtracted in both dimensions; 4 / (2 * 3) and 4 / (2 * 1).
    assert scenarios["mmlu"].offsets.tolist() == [2, 2, 2, 2]
    assert scenarios["mmlu"].balance_weights == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_of_the_published_format_is_read(tmp_path, protocol):
    content = {**small_content(), "extra": collections.OrderedDict(a={1, 2}, b=(None, "text", 1.5, b"raw"))}
    path, digest = saved(tmp_path / "tiny.pkl", content, protocol)
    published = read_published(path, digest.upper())
    assert published["extra"] == content["extra"]
    write_irt(tmp_path / "irt.npz", convert_published(published, str(path)))
    assert_equal(read_irt(tmp_path / "irt.npz"), convert_published(content, "x"))
    if protocol == 2:
        # Under the names of NumPy 1.
        path.write_bytes(path.read_bytes().replace(b"numpy._core.", b"numpy.core."))
        assert_equal(convert_published(read_published(path, sha256_file(path)), "x"), convert_published(content, "x"))


class Runs:
    """A pickle payload: calls ``function`` when it is read."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 5])
@pytest.mark.parametrize("function", [os.system, eval, getattr, np.load, np.fromfile])
def test_payloads_are_refused_by_name(tmp_path, function, protocol):
    target = tmp_path / "ran"
    content = {"lb": np.array([Runs(function, f"touch {target}")], dtype=object)}
    with pytest.raises(ArtifactError, match=rf"tiny\.pkl cannot be read as a pickle of arrays: .*{function.__name__}"):
        read_published(*saved(tmp_path / "tiny.pkl", content, protocol))
    assert not target.exists()


def test_files_that_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "tiny.pkl"
    _, digest = saved(path, small_content())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ArtifactError, match="cannot be read as a pickle"):
        read_published(path, sha256_file(path))
    with pytest.raises(ArtifactError, match="holds a list"):
        read_published(*saved(path, [1, 2]))
    # A wrong hash is refused before the file is read.
    monkeypatch.setattr("pipeline.artifacts.irt_artifact._ArrayUnpickler", None)
    with pytest.raises(ArtifactError, match=rf"tiny\.pkl has SHA-256 {sha256_file(path)}, but .* is {digest}"):
        read_published(path, digest)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"mmlu.seen": np.array([{}], dtype=object)}, "plain arrays"),
        ({"mmlu.seen": np.arange(3)}, r"has no array 'mmlu\.discriminations'"),
    ],
)
def test_broken_npz_files(tmp_path, arrays, message):
    np.savez(tmp_path / "irt.npz", **arrays)
    with pytest.raises(ArtifactError, match=message):
        read_irt(tmp_path / "irt.npz")
    (tmp_path / "irt.npz").write_bytes(b"PK")
    with pytest.raises(ArtifactError, match=r"irt\.npz is truncated or not an \.npz file"):
        read_irt(tmp_path / "irt.npz")


def test_the_shipped_artifact_is_what_the_script_makes():
    shipped = read_irt(ROOT / "data" / "irt.npz")
    assert_equal(shipped, convert_published(synthetic_content(), "synthetic"), rtol=1e-12)
    for scenario in shipped.values():
        assert len(scenario.seen) == 100
        assert scenario.seen_weights.sum() == pytest.approx(1) and scenario.balance_weights.mean() == pytest.approx(1)
