"""The section ``methods`` of ``params.yaml``: what adapters are trained on, or merged from."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, PositiveFloat, PositiveInt
from pipeline.config.training import Share

Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
TARGETS = ("soft", "hard")
"""What an adapter can be trained towards, each with a section of ``train`` and one of ``discretize``."""


@dataclass(frozen=True, config=STRICT)
class AnchorsConfig:
    """The term that keeps an adapted model near its base checkpoint, on replies to general instructions."""

    weight: PositiveFloat
    """beta, beside a weight of 1 of the targets; where there is a ``kl_budget``, its least, from which it starts."""
    divergence: Literal["forward", "reverse", "replay"]
    """forward: KL(base || model) on the base checkpoint's replies. reverse: KL(model || base) on the adapted model's
    own. replay: cross-entropy of the base checkpoint's replies, without its law."""
    sequences_per_step: PositiveInt
    """Replies in every optimiser step."""
    refresh_every_steps: PositiveInt
    """Steps for which the adapted model's replies are used before it writes new ones; for "reverse" alone."""
    kl_budget: PositiveFloat | None
    """Divergence in nats per token that ``weight`` is driven to keep to; null leaves the weight as it is."""

    @model_validator(mode="after")
    def _can_keep_to_a_budget(self) -> "AnchorsConfig":
        if self.kl_budget is not None and self.divergence == "replay":
            raise ValueError("kl_budget needs the divergence forward or reverse; replay measures none")
        return self


@dataclass(frozen=True, config=STRICT)
class MethodConfig:
    """One way to make an adapter, and so one condition of every table. Its name is its key."""

    soft_share: Share
    """alpha: 1 trains on soft targets (Eq. 3), 0 on hard targets (Eq. 4), what is between on both."""
    outside_weight: Weight
    """gamma: weight of KL(base || model) among the tokens that no target names, at the trained positions."""
    anchors: AnchorsConfig | None
    train: dict[str, Any]
    """What differs from the section ``train``, e.g. {learning_rate: 1.0e-4, soft: {epochs: 6}}."""
    merge: dict[str, Weight] | None
    """Weights of one or two trained methods' updates, which this one adds up instead of training: {soft: 0.5} is half
    of soft's update, {soft: 0.5, hard: 0.5} the mean of two. null trains."""

    @property
    def targets(self) -> tuple[str, ...]:
        """What it is trained towards, of TARGETS; nothing where it is merged."""
        return tuple(target_shares(self))

    @property
    def is_plain(self) -> bool:
        """Whether it is trained on targets of one kind and nothing else."""
        return len(self.targets) == 1 and self.anchors is None and not self.outside_weight


def target_shares(method: MethodConfig) -> dict[str, float]:
    """Weight of each of TARGETS that a method is trained towards, 1 together; nothing where it is merged."""
    # No property: digests of code follow names, not attributes of what is read from params.yaml.
    if method.merge is not None:
        return {}
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
