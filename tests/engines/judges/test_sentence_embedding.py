"""Sentence embeddings: mean pooling over the text alone, whatever it is batched with."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from pipeline.axes.inv_entropy.chains import cosine_similarities
from pipeline.config.evaluation import SimilarityConfig
from pipeline.engines.judges.sentence_embedding import embedding_identity, open_embedder
from pipeline.errors import ModelError
from tests.stand_ins.evaluators import save_classifier

pytestmark = pytest.mark.slow
TEXTS = ["a city", "the cat says a dog of the blue river and two cats of the city", "", "one two"]


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> SimilarityConfig:
    directory = save_classifier(tmp_path_factory.mktemp("encoder"))
    options = {"dtype": "float32", "max_tokens": 32, "tokens_per_pass": 64}
    return SimilarityConfig("embedding", str(directory), None, **options)


@pytest.fixture(scope="module")
def embed(config):
    return open_embedder(config, embedding_identity(config), "cpu")


def test_embeddings_are_the_mean_of_the_texts_own_hidden_states(embed):
    found = embed(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        if not text:
            assert not vector.any()
            continue
        inputs = embed.tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            hidden = embed.model(**inputs).last_hidden_state[0]
        assert vector == pytest.approx(hidden.mean(dim=0).double().numpy(), abs=1e-5)


def test_batching_and_order_do_not_matter(config, embed):
    small = open_embedder(dataclasses.replace(config, tokens_per_pass=1), embedding_identity(config), "cpu")
    assert small(TEXTS[::-1])[::-1] == pytest.approx(embed(TEXTS), abs=1e-5)
    alike = cosine_similarities(embed([*TEXTS, TEXTS[1]]))
    assert alike[1, 4] == pytest.approx(1) and ((alike >= 0) & (alike <= 1)).all()


def test_long_texts_are_cut_at_the_end(embed):
    text = " ".join(["city"] * 100)
    assert np.array_equal(embed([text]), embed([text + " and more"]))


def test_a_pooler_may_be_missing_and_other_weights_may_not(config, tmp_path):
    directory = save_classifier(tmp_path / "encoder")
    weights = load_file(directory / "model.safetensors")
    assert not any("pooler" in name and name.startswith("deberta") for name in weights)
    name = next(name for name in weights if "layer.0" in name)
    del weights[name]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    broken = dataclasses.replace(config, checkpoint=str(directory))
    with pytest.raises(ModelError, match=r"has no weights for .*layer\.0"):
        open_embedder(broken, embedding_identity(broken), "cpu")
    missing = dataclasses.replace(config, checkpoint="./nowhere")
    with pytest.raises(ModelError, match="./nowhere does not exist"):
        embedding_identity(missing)
