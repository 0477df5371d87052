"""The sections ``train``, ``methods`` and ``distributed`` of ``params.yaml``: how adapters are fine-tuned."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT, Dtype, PositiveFloat, PositiveInt

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
TARGETS = ("soft", "hard")
"""What an adapter can be trained towards, each with a section of ``train`` and one of ``discretize``."""


@dataclass(frozen=True, config=STRICT)
class SoftConfig:
    """What the soft-target method trains on (Eq. 3)."""

    epochs: PositiveInt
    samples_per_prompt: PositiveInt  # times that each prompt comes up in an epoch, with fresh paths
    paths_per_prompt: PositiveInt  # paths in one step behind one copy of the prompt; 1 in the paper
    prefix_weights: Literal["position", "mass"] = "position"
    """Mean over each path's positions (Eq. 3), or over those of all paths of a step: a prefix then weighs as often as
    it is reached, so that the loss is the divergence of whole answers and short ones do not outweigh long ones."""


@dataclass(frozen=True, config=STRICT)
class HardConfig:
    """What the hard-target method trains on (Eq. 4)."""

    epochs: PositiveInt
    samples_per_prompt: PositiveInt  # strings drawn per prompt and epoch
    loss_reduction: Literal["token", "completion"]
    """Mean over all tokens of a step (Algorithm 2, line 14), or over each string's tokens, then over strings (Eq. 4),
    whose optimum favours short strings (docs/methods.md)."""
    completions_per_prompt: PositiveInt
    """Strings in one step behind one copy of the prompt; 1 (the paper) mixes a prompt's strings over the epoch."""


@dataclass(frozen=True, config=STRICT)
class TrainConfig:
    """LoRA fine-tuning, shared by both methods (Tables 3 and 4)."""

    lora_rank: PositiveInt
    lora_alpha: PositiveFloat  # the update is multiplied by alpha / rank
    lora_dropout: Annotated[float, Field(strict=True, ge=0, lt=1)]
    learning_rate: Annotated[float, Field(strict=True, gt=0, le=1)]  # peak, of AdamW
    weight_decay: Share
    warmup_ratio: Share  # share of the steps with linear warm-up, before cosine decay to zero
    max_grad_norm: PositiveFloat | None  # null (the paper) does not clip
    global_batch_size: PositiveInt
    """Examples per optimiser step. An example is a prompt with one sequence (the paper), or with all that
    paths_per_prompt or completions_per_prompt put behind it."""
    micro_batch_size: PositiveInt
    """Examples per forward pass. Does not change the result beyond rounding and dropout masks."""
    tokens_per_pass: PositiveInt | None
    """At most, padding included: larger micro-batches and token trees are split, with no more effect."""
    max_length: Annotated[StrictInt, Field(ge=8)]
    """Longest allowed prompt + completion, in tokens, of a single sequence."""
    temperature: PositiveFloat  # tau of Eq. 2
    adapter_dtype: Dtype  # LoRA weights while they are trained, their gradients and the optimiser's moments
    checkpoint_every_steps: PositiveInt  # at most this many steps are lost when the stage is killed
    soft: SoftConfig
    hard: HardConfig
    order: Literal["rounds", "even"] = "rounds"
    """Of an epoch: in rounds over the families that have prompts left (the paper), or each spread evenly over it."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> "TrainConfig":
        packed = self.hard.completions_per_prompt
        for key, value, multiple, total in (
            ("micro_batch_size", self.micro_batch_size, "global_batch_size", self.global_batch_size),
            ("hard.completions_per_prompt", packed, "hard.samples_per_prompt", self.hard.samples_per_prompt),
        ):
            if total % value:
                raise ValueError(f"{key} {value} must divide {multiple} {total}")
        if self.tokens_per_pass is not None and self.tokens_per_pass < self.max_length:
            raise ValueError(
                f"tokens_per_pass {self.tokens_per_pass} must be at least max_length {self.max_length}, or null"
            )
        return self


@dataclass(frozen=True, config=STRICT)
class AnchorsConfig:
    """KL(base || model) on the base checkpoint's replies to general instructions, which keeps an adapted model near."""

    weight: PositiveFloat  # beta, beside a weight of 1 of the targets
    sequences_per_step: PositiveInt


@dataclass(frozen=True, config=STRICT)
class MethodConfig:
    """One way to train an adapter, and so one condition of every table. Its name is its key."""

    soft_share: Share  # alpha: 1 trains on soft targets (Eq. 3), 0 on hard targets (Eq. 4), what is between on both
    anchors: AnchorsConfig | None
    train: dict[str, Any]  # what differs from the section ``train``, e.g. {learning_rate: 1.0e-4, soft: {epochs: 6}}

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


Device = Literal["none", "gpu", "shards", "training"]
"""What a stage runs in: no process with a GPU, one, ``distributed.shards`` or ``distributed.num_processes``."""


@dataclass(frozen=True, config=STRICT)
class DistributedConfig:
    """Processes of a run. Does not change adapters beyond rounding, nor answers; not part of their identity."""

    strategy: Literal["single", "ddp", "fsdp"]
    """One process; a copy of the base model in each process; or its layers shared out among them."""
    num_processes: PositiveInt
    shards: PositiveInt = 1
    """Processes of a stage that samples or scores, each with a GPU and a share of the prompts."""

    def processes(self, device: Device) -> int:
        """How many processes with a GPU each a stage runs in."""
        return {"none": 0, "gpu": 1, "shards": self.shards, "training": self.num_processes}[device]

    @model_validator(mode="after")
    def _single_is_one(self) -> "DistributedConfig":
        if (self.strategy == "single") != (self.num_processes == 1):
            raise ValueError(
                f"strategy {self.strategy} with num_processes {self.num_processes}: single goes with 1, "
                "ddp and fsdp with 2 or more"
            )
        return self
