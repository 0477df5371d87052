"""The sections ``generate`` and ``evaluate`` of ``params.yaml``, and the types that all sections share."""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StrictInt, model_validator
from pydantic.dataclasses import dataclass

from pipeline.axes import AXES as EVALUATED

STRICT = ConfigDict(extra="forbid")

PositiveInt = Annotated[StrictInt, Field(ge=1)]
PositiveFloat = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(strict=True, gt=0, le=1)]
OpenShare = Annotated[float, Field(strict=True, gt=0, lt=1)]
SettingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Template = Annotated[str, Field(pattern=r"\{prompt\}")]  # a request; {prompt} stands for the question
Dtype = Literal["float32", "bfloat16"]

AXES = tuple(EVALUATED)
SAMPLED_AS = {name: axis.sampled_as for name, axis in EVALUATED.items() if axis.sampled_as not in ("", name)}
"""Axes that are sampled under the settings of another."""
PEOPLE_AXES = tuple(name for name, axis in EVALUATED.items() if axis.of_people)
QUESTION_AXES = tuple(name for name, axis in EVALUATED.items() if axis.of_questions)
"""Those that share a prompt set of questions."""
BASELINES = ("ssot", "constrained")
"""Conditions of the base checkpoint that change how it is asked or decoded, not its weights."""
DEFAULT_SETTING = "default"
"""The decoding setting that ``generate.questions`` itself gives, and the prompt set's own style."""


@dataclass(frozen=True, config=STRICT)
class GenerateConfig:
    """Sampling of one axis. The model's own generation_config is not used beyond ``checkpoint_defaults``."""

    num_samples: PositiveInt
    max_new_tokens: PositiveInt
    temperature: PositiveFloat
    top_p: Probability
    checkpoint_defaults: list[Literal["temperature", "top_p", "top_k"]]
    """Sampling settings that the checkpoint's generation_config.json replaces where it has them."""
    batch_size: PositiveInt
    """Most rows decoded together, without effect beyond rounding; a killed run loses at most so many samples."""


@dataclass(frozen=True, config=STRICT)
class BaselineConfig(GenerateConfig):
    """Sampling of a baseline, on every axis that has it."""

    enabled: bool


@dataclass(frozen=True, config=STRICT)
class DecodingConfig:
    """One way to draw answers from the softmax."""

    temperature: PositiveFloat
    top_p: Probability
    top_k: PositiveInt | None


@dataclass(frozen=True, config=STRICT)
class StyleConfig:
    """A style in which questions are asked, and where the answer is in a reply."""

    template: Template
    read: Literal["first_line", "after", "mentioned"]
    """The reply's first line; what stands behind the last ``mark``; or the known answer that the reply mentions, and
    the whole reply where it mentions none."""
    mark: str | None
    max_new_tokens: PositiveInt

    @model_validator(mode="after")
    def _mark_goes_with_after(self) -> "StyleConfig":
        if (self.read == "after") != bool(self.mark):
            raise ValueError(f"mark: a text for read=after, null otherwise; got {self.mark!r} for read={self.read}")
        return self


@dataclass(frozen=True, config=STRICT)
class QuestionsGenerateConfig(GenerateConfig):
    """Sampling of answers to questions."""

    num_samples: Annotated[StrictInt, Field(ge=2)]
    """Answers to a question under each setting; half of them choose the class that the others are counted in."""
    settings: dict[SettingName, DecodingConfig]
    """Further decoding settings by name, each with as many samples; the setting "default" is the section's own."""
    styles: dict[SettingName, StyleConfig] = field(default_factory=dict)
    """Further styles by name, sampled under the section's own decoding setting."""

    @model_validator(mode="after")
    def _names_are_free(self) -> "QuestionsGenerateConfig":
        if DEFAULT_SETTING in self.settings:
            raise ValueError(f"settings: the name {DEFAULT_SETTING!r} is the section's own setting; choose another")
        for name in self.styles:
            # The bare answers' figures are the split "all", each style's the split of its name.
            if name in (DEFAULT_SETTING, "all", *self.settings):
                raise ValueError(
                    f"styles: the name {name!r} is a decoding setting's or the bare answers'; choose another"
                )
        return self


@dataclass(frozen=True, config=STRICT)
class GenerateAxes:
    """Sampling settings by axis, then those of the baselines. Old records lack the sections that may be null."""

    structured: GenerateConfig
    open: GenerateConfig
    mcq: GenerateConfig
    novelty: GenerateConfig
    anchors: GenerateConfig
    """Replies to the held-out instructions, on which the divergence from the base checkpoint is measured."""
    instructions: GenerateConfig
    """The base checkpoint's replies to the other instructions, which methods with anchors are trained on."""
    ssot: BaselineConfig  # String Seed of Thought (Appendix C.2)
    constrained: BaselineConfig  # decoding restricted to the strings of the evaluation space
    questions: QuestionsGenerateConfig | None = None
    perturbations: GenerateConfig | None = None
    selfreflect: GenerateConfig | None = None


@dataclass(frozen=True, config=STRICT)
class ClassifierConfig:
    """What decides whether two NoveltyBench responses say the same."""

    kind: Literal["deberta", "lexical"]
    """The benchmark's pair classifier, or word overlap for machines without its weights."""
    checkpoint: str | None
    revision: str | None
    tokenizer: str | None
    tokenizer_revision: str | None
    dtype: Dtype
    threshold: Annotated[float, Field(strict=True, ge=0, le=1)]
    """Two responses are of one class where the similarity is above this."""
    max_tokens: PositiveInt  # of a response, whose end is cut
    tokens_per_pass: PositiveInt  # at most, padding included; here and below without effect beyond rounding


@dataclass(frozen=True, config=STRICT)
class RewardConfig:
    """What rates NoveltyBench responses."""

    kind: Literal["skywork", "likelihood"]
    """The benchmark's reward model, or a stand-in that is not comparable with the paper: the response's mean
    log-probability under the evaluated model's base checkpoint."""
    checkpoint: str | None
    revision: str | None
    dtype: Dtype
    max_length: PositiveInt  # in tokens; longer conversations are cut at the end
    tokens_per_pass: PositiveInt


@dataclass(frozen=True, config=STRICT)
class NoveltyConfig:
    classifier: ClassifierConfig
    reward: RewardConfig
    patience: OpenShare  # probability that the imagined reader asks for one more response; the discount of the utility


@dataclass(frozen=True, config=STRICT)
class InverseEntropyConfig:
    draws: PositiveInt  # of one answer to each perturbation; measures are averaged over them


@dataclass(frozen=True, config=STRICT)
class EvaluateConfig:
    """Scoring and intervals. Old records lack the sections that may be null."""

    paths_per_prompt: PositiveInt  # Monte Carlo paths for the logit KL
    exact_max_prefixes: PositiveInt | None  # tries of more prefixes than this are not scored whole
    bounds_width: PositiveFloat  # upper minus lower bound at which the exact normalised W1 is good enough
    bounds_max_positions: PositiveInt  # prefixes per prompt after which the bounds are taken as they are
    bootstrap_replicates: Annotated[StrictInt, Field(ge=100)]
    floor_replicates: Annotated[StrictInt, Field(ge=20)]  # simulated perfect samplers behind each floor
    mcq_parser: Literal["strict", "released_code"]
    """What counts as the requested format of a multiple-choice question: ours, or the released code's rules."""
    novelty: NoveltyConfig
    tokens_per_pass: PositiveInt  # of scores of replies to instructions
    inverse_entropy: InverseEntropyConfig | None = None
