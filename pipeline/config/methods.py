"""The section ``methods`` of ``params.yaml``: what adapters are trained on."""

from collections.abc import Mapping
from typing import Any

from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt
from pipeline.config.training import Share

TARGETS = ("soft", "hard")
"""What an adapter can be trained towards, each with a section of ``train`` and one of ``discretize``."""


@dataclass(frozen=True, config=STRICT)
class AnchorsConfig:
    """KL(base || model) on the base checkpoint's replies to general instructions, which keeps an adapted model near."""

    weight: PositiveFloat
    """beta, beside a weight of 1 of the targets."""
    sequences_per_step: PositiveInt


@dataclass(frozen=True, config=STRICT)
class MethodConfig:
    """One way to train an adapter, and so one condition of every table. Its name is its key."""

    soft_share: Share
    """alpha: 1 trains on soft targets (Eq. 3), 0 on hard targets (Eq. 4), what is between on both."""
    anchors: AnchorsConfig | None
    train: dict[str, Any]
    """What differs from the section ``train``, e.g. {learning_rate: 1.0e-4, soft: {epochs: 6}}."""

    @property
    def targets(self) -> tuple[str, ...]:
        """What it is trained towards, one or two of TARGETS."""
        return tuple(target_shares(self))

    @property
    def is_plain(self) -> bool:
        """Whether it is trained on targets of one kind and nothing else."""
        return len(self.targets) == 1 and self.anchors is None


def target_shares(method: MethodConfig) -> dict[str, float]:
    """Weight of each of TARGETS that a method is trained towards, 1 together."""
    # No property: digests of code follow names, not attributes of what is read from params.yaml.
    shares = dict(zip(TARGETS, (method.soft_share, 1 - method.soft_share), strict=True))
    return {name: share for name, share in shares.items() if share}


def merged_settings(section: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A section as nested mappings, with other values in the place of some."""
    nested = {
        name: merged_settings(section[name], value)
        for name, value in values.items()
        if isinstance(value, Mapping) and isinstance(section.get(name), Mapping)
    }
    return {**section, **values, **nested}
