"""Prompts, output spaces and tries against recorded values, and against the reference vectors where present."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipeline.axes.structured.wasserstein import interquantile_width, wasserstein_1
from pipeline.core.laws.discretize import discretize
from pipeline.core.prompts.structured import build_split
from pipeline.core.tries.trie import build_trie
from tests.golden.make_golden import PATH, SPLITS, byte_sequences, digest

GOLDEN = json.loads(PATH.read_text())
CONFORMANCE = Path(
    os.environ.get("CALIBRATION_CONFORMANCE", Path(__file__).resolve().parents[3] / "shared" / "conformance")
)


@pytest.fixture(scope="module")
def prompts():
    return {name: build_split(split, selection=selection) for name, (split, selection) in SPLITS.items()}


@pytest.fixture(scope="module")
def by_text(prompts):
    return {prompt.text: prompt for members in prompts.values() for prompt in members}


@pytest.fixture(scope="module")
def vectors():
    path = CONFORMANCE / "vectors.json"
    if not path.exists():
        pytest.skip(f"no reference vectors at {path}")
    return json.loads(path.read_text())


def counts_and_hashes(prompts):
    counts = {name: len(members) for name, members in prompts.items()}
    return counts, {name: digest(sorted(prompt.text for prompt in members)) for name, members in prompts.items()}


def space_of(by_text, case):
    """The output space of a case, which has the size, the values and the probabilities that were recorded."""
    law = by_text[case["prompt"]].law
    space = discretize(law, num_decimals=case["num_decimals"], max_bins=case["max_bins"])
    if "size" in case:
        assert len(space.values) == case["size"] and digest(space.values) == case["values_sha256"]
        probabilities = dict(zip(space.values, space.probabilities, strict=True))
        assert {value: probabilities[value] for value in case["at"]} == pytest.approx(case["at"], abs=1e-9)
    return space


def test_prompt_texts(prompts):
    assert counts_and_hashes(prompts) == (GOLDEN["counts"], GOLDEN["prompts_sha256"])


@pytest.mark.parametrize("settings", [(5, 1001), (3, 1001), (5, 16384)])
def test_output_spaces_and_tries(by_text, settings):
    cases = [case for case in GOLDEN["output_spaces"] if (case["num_decimals"], case["max_bins"]) == settings]
    assert len(cases) == 42
    for case in cases:
        space = space_of(by_text, case)
        trie = build_trie(byte_sequences(space.values), space.probabilities, terminator=0)
        assert (trie.num_prefixes, trie.num_edges) == (case["num_prefixes"], case["num_edges"])


def test_reference_prompts(vectors, prompts):
    assert counts_and_hashes(prompts) == (vectors["counts"], vectors["prompt_sha256_sorted"])
    assert [p.text for p in prompts["unseen_selected"]] == vectors["prompts_selected"]["unseen"]
    assert [p.text for p in prompts["ood_selected"]] == vectors["prompts_selected"]["ood"]
    first = {}
    for prompt in prompts["train"]:
        first.setdefault(prompt.family, prompt.text)
    assert first == vectors["prompts_train_first_per_family"]


def test_reference_output_spaces(vectors, by_text):
    for case in vectors["output_spaces"]:
        mass = space_of(by_text, case).probabilities
        mass = mass[mass > 0]
        assert -(mass * np.log(mass)).sum() == pytest.approx(case["entropy_nats"], abs=1e-9)


def test_reference_tries(vectors, by_text):
    from transformers import AutoTokenizer

    tokenizers = {
        f"tok_{name}": AutoTokenizer.from_pretrained(CONFORMANCE / "tokenizers" / name)
        for name in ("digits1", "digits3")
    }
    for case in vectors["tries"]:
        tokenizer = tokenizers[case["tokenizer"]]
        space = space_of(by_text, case)
        ids = tokenizer(list(space.values), add_special_tokens=False)["input_ids"]
        trie = build_trie(ids, space.probabilities, tokenizer.eos_token_id)
        assert (trie.num_prefixes, trie.num_edges) == (case["num_prefixes"], case["num_edges"])
        for prefix in case["prefixes"]:
            tokens, probabilities = trie.next_tokens(prefix["prefix_ids"])
            expected = {int(token): mass for token, mass in prefix["next"].items()}
            assert tokens.tolist() == sorted(expected)
            np.testing.assert_allclose(probabilities, [expected[t] for t in tokens.tolist()], atol=1e-9)


def test_reference_wasserstein(vectors, by_text):
    for case in vectors["wasserstein"]:
        law = by_text[case["prompt"]].law
        width = interquantile_width(law)
        assert width == pytest.approx(case["q95_minus_q05"], abs=1e-9)
        found = wasserstein_1(np.sort(case["samples"])[None], law)[0]
        assert found * width == pytest.approx(case["w1"], abs=1e-9)
