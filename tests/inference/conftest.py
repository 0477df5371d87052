"""A trained condition over the tiny model, in artifacts of its own."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.config.params import Params, load_params
from tests.composition import write_changed
from tests.engines.conftest import model_config, tokenizer
from tests.engines.engine_cases import save_adapter

__all__ = ["model_config", "tokenizer"]


@dataclass(frozen=True)
class Project:
    """A params.yaml with one trained method, soft, and one that is not trained, hard."""

    path: Path
    params: Params
    adapter: Path


@pytest.fixture(scope="session")
def project(tiny_params, model_config, tmp_path_factory) -> Project:
    root = tmp_path_factory.mktemp("inference")
    path = write_changed(tiny_params, root / "params.yaml", artifacts=str(root / "artifacts"))
    adapter = save_adapter(model_config, root / "artifacts" / "adapters" / "embedded" / "soft")
    return Project(path, load_params(path), adapter)
