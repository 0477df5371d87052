"""Gemma 3 270M, a base checkpoint (Gemma's terms: used here, not passed on), through the import of GGUF files.

What it has and SmolLM2 has not: sliding windows, 262,144 tokens, a BOS token that begins every text.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pipeline.artifacts.storage import read_json
from pipeline.commands import parse_arguments
from pipeline.compose import compose_params
from pipeline.config.params import validate
from pipeline.engines.loading import chat
from pipeline.engines.loading.model import load_model, load_tokenizer, next_log_probabilities
from pipeline.engines.scoring.tree_scorer import TreeScorer
from pipeline.errors import ConfigError
from pipeline.sources import import_gguf
from tests.conftest import ROOT
from tests.real.conftest import CACHE

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory() -> Path:
    """The checkpoint as ``make laptop MODEL=gemma3_270m`` fetches it; skips where that fails."""
    directory = CACHE / "gemma3_270m"
    if not directory.exists():
        makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
        (options,) = re.findall(r"^FETCH_gemma3_270m = (.*)$", makefile, re.MULTILINE)
        try:
            options = parse_arguments("pipeline.sources.import_gguf", [str(directory), *shlex.split(options)])
            import_gguf.main(**vars(options))
        except ConfigError as error:
            pytest.skip(str(error))
    return directory


@pytest.fixture(scope="module")
def gemma(directory) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """As the stages load it."""
    config = validate(compose_params(ROOT / "conf", ["experiment=one_model", "+model@models.gemma=gemma3_270m"]))
    config = replace(config.models["gemma"], checkpoint=str(directory))
    return load_model(config, device="cpu"), load_tokenizer(config)


def test_the_file_is_read_whole(directory, gemma):
    record = read_json(directory / import_gguf.RECORD)
    assert record["num_parameters"] == sum(value.numel() for value in gemma[0].parameters()) == 268_098_176
    assert record["license"] == "gemma" and sum(record["tensors"].values()) == 236


BEGINNINGS = {
    "The quick brown fox jumps over the lazy": " dog",
    "1, 2, 3, 4, 5, 6,": " ",
    "Monday, Tuesday,": " Wednesday",
}


@pytest.mark.parametrize(("text", "expected"), BEGINNINGS.items())
def test_it_knows_what_it_was_taught(gemma, text, expected):
    model, tokenizer = gemma
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode([int(next_log_probabilities(model, [ids])[0].argmax())]) == expected


def test_a_request_begins_once(gemma):
    ids = chat.encode_messages(gemma[1], [{"role": "user", "content": "Name one random city."}], {})
    assert [place for place, token in enumerate(ids) if token == gemma[1].bos_token_id] == [0]


def test_numbers_behind_a_text_longer_than_its_windows(gemma):
    """Packed trees, whose nodes do not all see the beginning, against each number by itself."""
    model, tokenizer = gemma
    assert model.config.get_text_config().sliding_window == 512
    prompt = tokenizer("Here are some random numbers: " + "3.14, 2.72, " * 80)["input_ids"]
    assert len(prompt) > 520
    paths = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("12.5", "12.7", "1", "9.99")]
    digits = np.array([tokenizer(digit, add_special_tokens=False)["input_ids"][0] for digit in "0123456789."])
    scorer = TreeScorer(model)
    scores = scorer.path_scorer(prompt, digits)(paths)
    for path, found in zip(paths, scores, strict=True):
        alone = next_log_probabilities(model, [prompt + path])[0, digits]
        np.testing.assert_allclose(found, alone.numpy(), atol=1e-3)
