"""The section of ``params.yaml`` that says how many processes train an adapter."""

from typing import Literal

from pydantic import model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveInt


@dataclass(frozen=True, config=STRICT)
class DistributedConfig:
    """Processes of a training run. Does not change the adapter beyond rounding; not part of its identity."""

    strategy: Literal["single", "ddp", "fsdp"]
    """One process; a copy of the base model in each process (ddp); or its layers shared out among them (fsdp)."""
    num_processes: PositiveInt
    """Processes, one per GPU where there are GPUs."""

    @model_validator(mode="after")
    def _single_is_one(self) -> "DistributedConfig":
        if (self.strategy == "single") != (self.num_processes == 1):
            raise ValueError(
                f"strategy {self.strategy} with num_processes {self.num_processes}: single goes with 1, "
                "ddp and fsdp with 2 or more"
            )
        return self
