"""Rates of a device on which this code was measured (``make gpu-check``), for plans of what is to run there."""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, StrictBool
from pydantic.dataclasses import dataclass

from pipeline.artifacts.storage import read_json
from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt
from pipeline.config.params import validate
from pipeline.errors import ArtifactError

SAME_SIZE = 0.01
"""Numbers of weights that differ by less are those of one model."""


@dataclass(frozen=True, config=STRICT)
class ModelRates:
    """What one model takes, in seconds; one with experts stands for its own size alone."""

    num_parameters: PositiveInt
    experts: StrictBool
    training_step: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
    training_token: PositiveFloat
    reading_token: PositiveFloat
    decoding_step: PositiveFloat
    """Of ``Rates.decoding_rows`` rows."""


@dataclass(frozen=True, config=STRICT)
class Rates:
    """What models take on one device; a decoding step of fewer rows takes as long."""

    device: Annotated[str, Field(min_length=1)]
    measured: str
    decoding_rows: PositiveInt
    models: Annotated[dict[str, ModelRates], Field(min_length=1)]

    def seconds(self, figure: str, num_parameters: int) -> float:
        """One of the times of ``ModelRates``: linear between two sizes, in proportion above the largest, constant below
        the smallest; models with experts are left out of that, unless there are no others.
        """
        for model in self.models.values():
            if abs(model.num_parameters / num_parameters - 1) < SAME_SIZE:
                return getattr(model, figure)
        known = [model for model in self.models.values() if not model.experts] or [*self.models.values()]
        known.sort(key=lambda model: model.num_parameters)
        sizes = [model.num_parameters for model in known]
        between = np.interp(num_parameters, sizes, [getattr(model, figure) for model in known])
        return float(between) * max(num_parameters / sizes[-1], 1.0)


def read_rates(path: Path) -> Rates:
    """Read a file of rates. Raises ArtifactError where there is none, and ConfigError naming a key."""
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist; `make gpu-check` writes rates")
    return validate(read_json(path), Rates, str(path))
