"""Parameters of conf/ under overrides, composed once for all tests of a process."""

import functools
import pickle
from typing import Any

from pipeline.compose import compose_params
from tests.conftest import ROOT


@functools.cache
def _composed(overrides: tuple[str, ...]) -> bytes:
    return pickle.dumps(compose_params(ROOT / "conf", list(overrides)))


def composed_params(*overrides: str) -> dict[str, Any]:
    """What ``compose_params`` returns and raises; each caller may change what it gets."""
    return pickle.loads(_composed(overrides))
