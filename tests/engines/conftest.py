"""The tiny model, loaded through the pipeline's own loading code."""

import pytest

from pipeline.compose import compose_params
from pipeline.config.params import validate
from tests.conftest import ROOT
from tests.engines.engine_cases import save_adapter


@pytest.fixture(scope="session")
def model_config(tiny_model):
    return validate(compose_params(ROOT / "conf", [f"models.embedded.checkpoint={tiny_model}"])).models["embedded"]


@pytest.fixture(scope="session")
def adapter(model_config, tmp_path_factory):
    return save_adapter(model_config, tmp_path_factory.mktemp("adapters") / "soft")


@pytest.fixture
def model(model_config):
    from pipeline.engines.loading.model import load_model

    return load_model(model_config, device="cpu")


@pytest.fixture(scope="session")
def tokenizer(model_config):
    from pipeline.engines.loading.model import load_tokenizer

    return load_tokenizer(model_config)
