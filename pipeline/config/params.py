"""The schema of ``params.yaml``: a frozen dataclass per section. Nothing has a default: every value is in ``conf/``."""

import re
from dataclasses import asdict, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import Field, StrictBool, StrictInt, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.engine import EngineConfig
from pipeline.config.evaluation import (
    AXES,
    BASELINES,
    QUESTION_AXES,
    STRICT,
    EvaluateConfig,
    GenerateAxes,
    PositiveFloat,
    PositiveInt,
)
from pipeline.config.models import ModelConfig
from pipeline.config.prompts import PromptsConfig
from pipeline.config.retention import PalomaConfig, RetentionConfig, TestsConfig
from pipeline.config.training import DistributedConfig, MethodConfig, TrainConfig, merged_settings
from pipeline.core.laws.families import FAMILIES
from pipeline.errors import ConfigError, did_you_mean

BASE = "base"  # the condition without an adapter
NAME = re.compile(r"[a-z][a-z0-9_]*")
NEEDED = {
    "prompts.questions": QUESTION_AXES,
    "generate.questions": QUESTION_AXES,
    "prompts.perturbations": ("inv_entropy",),
    "generate.perturbations": ("inv_entropy",),
    "evaluate.inverse_entropy": ("inv_entropy",),
    "selfreflect": ("selfreflect",),
    "generate.selfreflect": ("selfreflect",),
}
"""Sections that some axes need, and that old records lack."""
Section = TypeVar("Section")
MaxBins = Annotated[StrictInt, Field(ge=2, le=10_000_000)]


@dataclass(frozen=True, config=STRICT)
class EvaluationSpace:
    """Canonical strings, at most so many for a prompt (Section 3, Appendix B.1)."""

    num_decimals: Annotated[StrictInt, Field(ge=0, le=12)]
    max_bins: MaxBins


@dataclass(frozen=True, config=STRICT)
class DiscretizeConfig(EvaluationSpace):
    """The canonical strings that a method trains on."""

    max_bins: MaxBins | None  # null keeps every decimal (the law rounded to num_decimals)


@dataclass(frozen=True, config=STRICT)
class DiscretizeSpaces:
    """What each method trains on, and what every condition is scored on (always a list, as in the paper)."""

    soft: DiscretizeConfig
    hard: DiscretizeConfig
    eval: EvaluationSpace


@dataclass(frozen=True, config=STRICT)
class TrackingConfig:
    """Weights & Biases. Not part of any artifact's identity."""

    mode: Literal["auto", "online", "offline", "disabled"]  # "auto": online where credentials are found, else offline
    project: str


@dataclass(frozen=True, config=STRICT)
class SelfReflectConfig:
    """A judge reads a summary of a model's answers, or the answers themselves, and guesses words of further answers."""

    judge: ModelConfig | None
    """A causal language model (``+model@selfreflect.judge=NAME``); null takes the evaluated model's base checkpoint."""
    test_answers: PositiveInt
    """The last so many answers, whose words are guessed; the others are the list that the judge reads."""
    temperature: PositiveFloat  # of the judge's laws that are compared
    tokens_per_pass: PositiveInt


RootSeed = Annotated[StrictInt, Field(ge=0, lt=2**63)]


@dataclass(frozen=True, config=STRICT)
class Params:
    """All of ``params.yaml``."""

    experiment: str
    artifacts: str  # root directory, relative to the project
    reports: str
    compat: Literal["none", "released_code"]
    """Whose practice the settings follow where ours differs from the code behind the paper's numbers (conf/compat)."""
    require_pinned_revisions: bool
    """Whether the DAG refuses to start while a checkpoint or data set of the hub has no commit (`make pin`)."""
    axes: Annotated[list[Literal[AXES]], Field(min_length=1)]  # what is evaluated; no artifact depends on it
    conditions: Annotated[list[str], Field(min_length=1)]
    """What models are evaluated under: the base checkpoint and methods, in the order of tables."""
    profile_construction: StrictBool  # whether the DAG measures what output spaces and tries cost to build (Table 24)
    seed: RootSeed
    """Root of the named random streams but those below: drawn prompts, paths of scores, floors, the bootstrap."""
    train_seed: RootSeed  # the order of prompts, initial LoRA weights, dropout, drawn targets
    sampling_seed: RootSeed  # all generations
    prompts: PromptsConfig
    discretize: DiscretizeSpaces
    train: TrainConfig
    distributed: DistributedConfig
    engine: EngineConfig
    generate: GenerateAxes
    evaluate: EvaluateConfig
    retention: RetentionConfig
    paloma: PalomaConfig
    tests: TestsConfig
    tracking: TrackingConfig
    methods: Annotated[dict[str, MethodConfig], Field(min_length=1)]
    models: Annotated[dict[str, ModelConfig], Field(min_length=1)]
    laws: dict[str, str] = field(default_factory=dict)  # files by name (pipeline/config/laws.py), in one directory
    selfreflect: SelfReflectConfig | None = None

    @property
    def possible_axes(self) -> tuple[str, ...]:
        """AXES, but for laws where there are none, and for QUESTION_AXES where they are off."""
        absent = {axis for axis in QUESTION_AXES if axis not in self.axes} | ({"laws"} if not self.laws else set())
        return tuple(axis for axis in AXES if axis not in absent)

    @model_validator(mode="after")
    def _sections_fit(self) -> "Params":
        if len(set(self.axes)) < len(self.axes):
            raise ValueError(f"axes: got {', '.join(self.axes)}; give each once")
        self._check_laws()
        self._check_questions()
        self._check_methods()
        return self

    def _check_laws(self) -> None:
        if self.prompts.families == [] and not self.laws:
            raise ValueError("prompts.families: there is none, and no law: name one of either (laws) to train on")
        for name in self.laws:
            if not NAME.fullmatch(name) or name in FAMILIES:
                raise ValueError(
                    f"laws.{name}: a law's name has lower-case letters, digits and _, and is no family of the paper's"
                )
        places = {Path(file).parent for file in self.laws.values()}
        if len(places) > 1 or Path() in places:
            raise ValueError("laws: the files must lie in one directory, not the project's own, which DVC watches")

    def _check_questions(self) -> None:
        for key, axes in NEEDED.items():
            if not set(axes).isdisjoint(self.axes) and attrgetter(key)(self) is None:
                raise ValueError(f"{key}: a value is missing, which is needed by {', '.join(axes)}")
        if "selfreflect" in self.axes:
            drawn, tested = self.generate.questions.num_samples, self.selfreflect.test_answers
            if tested >= drawn:
                raise ValueError(
                    f"selfreflect.test_answers: got {tested}; must be less than generate.questions.num_samples "
                    f"({drawn}), whose other answers are the list that the judge reads"
                )

    def _check_methods(self) -> None:
        taken = (BASE, *BASELINES)
        for name, method in self.methods.items():
            if not NAME.fullmatch(name) or name in taken:
                allowed = f"lower-case letters, digits and _, and is none of {', '.join(taken)}"
                raise ValueError(f"methods.{name}: a method's name has {allowed}")
            validate(merged_settings(asdict(self.train), method.train), TrainConfig, f"methods.{name}.train")
        known = (BASE, *self.methods)
        if not set(self.conditions) <= set(known) or len(set(self.conditions)) < len(self.conditions):
            allowed = f"give null for all, or a list of {', '.join(known)}, each at most once"
            raise ValueError(f"conditions: got {', '.join(self.conditions)}; {allowed}")


def _allowed_keys(schema: Any, location: list[str]) -> list[str]:
    """Keys that the section holding ``location`` allows, from the schema's JSON form."""
    root = node = TypeAdapter(schema).json_schema()
    for part in location[:-1]:
        node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
        # A section that may be null is one of two.
        node = next((option for option in node.get("anyOf", ()) if "$ref" in option), node)
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return list(node.get("properties", {}))


def _explained(problem: dict[str, Any], values: Any, schema: Any) -> str:
    """One of pydantic's errors in our words, with its key."""
    kind, location, node = problem["type"], [], values
    for part in problem["loc"]:
        # What is no key of the values names a validator or an alternative, unless it is the key that is missing.
        there = part in node if isinstance(node, dict) else isinstance(node, list) and isinstance(part, int)
        node = node[part] if there else node
        if there or (kind == "missing" and part == problem["loc"][-1]):
            location.append(str(part))
    key = ".".join(location)
    if kind == "unexpected_keyword_argument":
        known = _allowed_keys(schema, location)
        message = f"unknown key; {did_you_mean(location[-1], known)}the keys allowed here are {', '.join(known)}"
    elif kind == "missing":
        message = "a value is missing"
    elif kind == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
    elif kind == "too_short" and key in ("models", "methods"):
        message = f"at least one is needed; +{key[:-1]}@{key}.NAME=NAME adds one of conf/{key[:-1]}"
    else:
        # Such as: Input should be 'a' or 'b'; String should match pattern '...'.
        text = re.sub(r" or an instance of \w+", "", problem["msg"])
        message = f"{re.sub(r'^.*? should', 'must', text)}, got {problem['input']!r}"
        if kind == "literal_error":
            known = re.findall("'([^']*)'", problem["ctx"]["expected"])
            message = f"{did_you_mean(str(problem['input']), known)}{message}"
    return f"{key}: {message}" if key else message


def validate(values: Any, schema: type[Section] = Params, source: str = "params.yaml") -> Section:
    """Check ``values`` against a schema. Raises ConfigError naming the source, the key and what is allowed."""
    try:
        return TypeAdapter(schema).validate_python(values)
    except ValidationError as error:
        # A misspelt key is also a missing one; the misspelling is the better message.
        problem = min(error.errors(), key=lambda item: item["type"] != "unexpected_keyword_argument")
    raise ConfigError(f"{source}: {_explained(problem, values, schema)}")


def with_conditions(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters with a list of ``conditions``: base and every method where they name none."""
    return {**values, "conditions": values.get("conditions") or [BASE, *(values.get("methods") or {})]}


# libyaml reads a thousand lines in a tenth of the time; every stage reads params.yaml.
SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> dict[str, Any]:
    """Content of a YAML file that `make params` writes. Raises ConfigError."""
    if not path.exists():
        raise ConfigError(f"{path} does not exist; `make params` writes it")
    try:
        values = yaml.load(path.read_text(), SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a mapping; `make params` writes it")
    return values


def load_params(path: Path) -> Params:
    """Read and validate ``params.yaml``. Raises ConfigError."""
    return validate(with_conditions(read_yaml(path)), source=str(path))
