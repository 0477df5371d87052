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

# Numbers of weights that differ by less are those of one model.
SAME_SIZE = 0.01


@dataclass(frozen=True, config=STRICT)
class ModelRates:
    """What one model takes, in seconds."""

    num_parameters: PositiveInt
    """Its weights, all experts included."""
    experts: StrictBool
    """Whether a token runs through a part of the weights: such a model stands for its own size alone."""
    training_step: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
    """Part of an optimiser step that does not depend on its tokens."""
    training_token: PositiveFloat
    """Forward and backward pass of each token of a step."""
    reading_token: PositiveFloat
    """To read a token and give the log-probabilities behind it."""
    decoding_step: PositiveFloat
    """A decoding step, of ``Rates.decoding_rows`` rows."""


@dataclass(frozen=True, config=STRICT)
class Rates:
    """What models take on one device."""

    device: Annotated[str, Field(min_length=1)]
    """Its name, as the driver tells it."""
    measured: str
    """When, and with which versions."""
    decoding_rows: PositiveInt
    """Rows that the measured decoding steps advanced; a step of fewer rows takes as long."""
    models: Annotated[dict[str, ModelRates], Field(min_length=1)]
    """What was measured, by name."""

    def seconds(self, figure: str, num_parameters: int) -> float:
        """One of the times of ``ModelRates`` for a model of a given size.

        A model as large as a measured one takes what that took. Between two sizes times are linear in the number of
        weights; above the largest they grow in proportion to it, below the smallest they stay. Models with experts
        are left out of that, unless there are no others.
        """
        measured = list(self.models.values())
        for model in measured:
            if abs(model.num_parameters / num_parameters - 1) < SAME_SIZE:
                return getattr(model, figure)
        known = [model for model in measured if not model.experts] or measured
        known = sorted(known, key=lambda model: model.num_parameters)
        sizes = [model.num_parameters for model in known]
        between = np.interp(num_parameters, sizes, [getattr(model, figure) for model in known])
        return float(between) * max(num_parameters / sizes[-1], 1.0)


def read_rates(path: Path) -> Rates:
    """Read a file of rates. Raises ArtifactError where there is none, and ConfigError naming a key."""
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist; `make gpu-check` writes rates")
    return validate(read_json(path), Rates, str(path))
