"""The schema of ``params.yaml``: one frozen dataclass per section, with units and ranges.

Unknown keys, wrong types and out-of-range values raise ConfigError, which names the key
and what is allowed. Nothing here has a default: every value that matters is in ``conf/``.
"""

import re
from dataclasses import asdict, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from pipeline.config.distributed import DistributedConfig
from pipeline.config.engine import EngineConfig
from pipeline.config.evaluation import (
    AXES,
    BASELINES,
    QUESTION_AXES,
    STRICT,
    EvaluateConfig,
    GenerateAxes,
)
from pipeline.config.methods import MethodConfig, merged_settings
from pipeline.config.models import ModelConfig
from pipeline.config.prompts import PromptsConfig
from pipeline.config.retention import PalomaConfig, RetentionConfig, TestsConfig
from pipeline.config.selfreflect import SelfReflectConfig
from pipeline.config.training import TrainConfig
from pipeline.core.laws.families import FAMILIES
from pipeline.errors import ConfigError

BASE = "base"
"""The condition without an adapter."""
METHOD_NAME = re.compile(r"[a-z][a-z0-9_]*")
Section = TypeVar("Section")


MaxBins = Annotated[StrictInt, Field(ge=2, le=10_000_000)]


@dataclass(frozen=True, config=STRICT)
class DiscretizeConfig:
    """The canonical strings that a method trains on (Section 3, Appendix B.1)."""

    num_decimals: Annotated[StrictInt, Field(ge=0, le=12)]
    """Decimals of the canonical strings."""
    max_bins: MaxBins | None
    """Largest number of canonical strings per prompt; null keeps every decimal (the law rounded to num_decimals)."""
    integer_lower_tail: Literal["renormalise", "first_value"]
    """Mass below the first value of an integer law without a lower end; the paper renormalises. Unused without bins."""


@dataclass(frozen=True, config=STRICT)
class EvaluationSpace:
    """The canonical strings that every condition is scored on; always a list, as in the paper."""

    num_decimals: Annotated[StrictInt, Field(ge=0, le=12)]
    """Decimals of the canonical strings."""
    max_bins: MaxBins
    """Largest number of canonical strings per prompt."""
    integer_lower_tail: Literal["renormalise", "first_value"]
    """Mass below the first value of an integer law without a lower end; the paper renormalises."""


@dataclass(frozen=True, config=STRICT)
class DiscretizeSpaces:
    """The three output spaces: what each method trains on, and what every condition is scored on."""

    soft: DiscretizeConfig
    hard: DiscretizeConfig
    eval: EvaluationSpace


@dataclass(frozen=True, config=STRICT)
class TrackingConfig:
    """Weights & Biases. Not part of any artifact's identity."""

    mode: Literal["auto", "online", "offline", "disabled"]
    """"auto" is online where credentials are found, else offline."""
    project: str
    """W&B project."""


def _some_axes(value: Any) -> Any:
    """A list of one or more of AXES, none of them twice. Raises ValueError, which says what is allowed."""
    allowed = f"give a list of one or more of {', '.join(AXES)}, each once"
    if not isinstance(value, list) or not value:
        raise ValueError(f"got {value!r}; {allowed}")
    for position, axis in enumerate(value):
        if axis not in AXES:
            raise ValueError(f"there is no axis {axis!r}; {allowed}")
        if axis in value[:position]:
            raise ValueError(f"{axis} is named twice; {allowed}")
    return value


RootSeed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Axes = Annotated[list[str], BeforeValidator(_some_axes)]


@dataclass(frozen=True, config=STRICT)
class Params:
    """All of ``params.yaml``."""

    experiment: str
    """Name of the experiment in ``conf/experiment``."""
    artifacts: str
    """Root directory of all artifacts, relative to the project."""
    reports: str
    """Directory of tables, figures and the page."""
    compat: Literal["none", "released_code"]
    """Whose practice the settings follow where ours differs from the code behind the paper's numbers (conf/compat)."""
    require_pinned_revisions: bool
    """Whether the DAG refuses to start while a checkpoint or data set of the hub has no commit (`make pin`)."""
    axes: Axes
    """What is evaluated: one or more of ``AXES``, in any order; "laws" where there are any. The stages of the others do
    not exist. No artifact depends on it."""
    conditions: Annotated[list[str], Field(min_length=1)]
    """What models are evaluated under: the base checkpoint and methods, in the order of tables. DVC tracks it: an
    evaluation sees all conditions of a model at once."""
    profile_construction: StrictBool
    """Whether the DAG measures what output spaces and tries cost to build (Table 24)."""
    seed: RootSeed
    """Root of the named random streams but those below: drawn prompts, paths of scores, floors, the bootstrap."""
    train_seed: RootSeed
    """Root of training's: the order of prompts, initial LoRA weights, dropout, drawn targets."""
    sampling_seed: RootSeed
    """Root of the generations', of base and of baselines too."""
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
    """What is trained, or merged from what is, by name (conf/method)."""
    models: Annotated[dict[str, ModelConfig], Field(min_length=1)]
    laws: dict[str, str] = field(default_factory=dict)
    """Laws of one's own: a file of each by name (pipeline/config/laws.py), all in one directory. Parameters that were
    recorded without the key have none."""
    selfreflect: SelfReflectConfig | None = None
    """Which the axis "selfreflect" needs; none in parameters that were recorded before it."""

    @property
    def possible_axes(self) -> tuple[str, ...]:
        """AXES, but for laws where there are none, and for QUESTION_AXES where they are off."""
        absent = {axis for axis in QUESTION_AXES if axis not in self.axes} | ({"laws"} if not self.laws else set())
        return tuple(axis for axis in AXES if axis not in absent)

    @model_validator(mode="after")
    def _laws_lie_together(self) -> "Params":
        for name in self.laws:
            if not METHOD_NAME.fullmatch(name) or name in FAMILIES:
                raise ValueError(
                    f"laws.{name}: a law's name has lower-case letters, digits and _, and is no family of the paper's"
                )
        places = {Path(file).parent for file in self.laws.values()}
        if len(places) > 1 or Path() in places:
            raise ValueError("laws: the files must lie in one directory, not the project's own, which DVC watches")
        return self

    @model_validator(mode="after")
    def _questions_are_asked(self) -> "Params":
        if problem := _missing_section(self):
            raise ValueError(problem)
        if problem := _selfreflect_problem(self):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _methods_can_be_made(self) -> "Params":
        for name, method in self.methods.items():
            if not METHOD_NAME.fullmatch(name) or name in (BASE, *BASELINES):
                raise ValueError(
                    f"methods.{name}: a method's name has lower-case letters, digits and _, and is none of "
                    f"{', '.join((BASE, *BASELINES))}"
                )
            validate(merged_settings(asdict(self.train), method.train), TrainConfig, f"methods.{name}.train")
            if method.merge is not None and (problem := _merge_problem(name, method, self.methods)):
                raise ValueError(f"methods.{name}.merge: {problem}")
        return self

    @model_validator(mode="after")
    def _conditions_exist(self) -> "Params":
        known = (BASE, *self.methods)
        for place, name in enumerate(self.conditions):
            if name not in known or name in self.conditions[:place]:
                raise ValueError(
                    f"conditions: got {name!r}; give null for all, or a list of {', '.join(known)}, each at most once"
                )
        return self


def _missing_section(params: "Params") -> str | None:
    """What is wrong where parameters from before the axes of questions lack a section that one needs; else None."""
    sections = {
        "prompts.questions": (params.prompts.questions, QUESTION_AXES),
        "generate.questions": (params.generate.questions, QUESTION_AXES),
        "evaluate.partition": (params.evaluate.partition, QUESTION_AXES),
        "prompts.perturbations": (params.prompts.perturbations, ("inv_entropy",)),
        "generate.perturbations": (params.generate.perturbations, ("inv_entropy",)),
        "evaluate.inverse_entropy": (params.evaluate.inverse_entropy, ("inv_entropy",)),
    }
    for key, (section, axes) in sections.items():
        if section is None and not set(axes).isdisjoint(params.axes):
            return f"{key}: a value is missing, which {', '.join(axes)} need"
    return None


def _selfreflect_problem(params: "Params") -> str | None:
    """What the axis "selfreflect" lacks; None where nothing, or where it is off."""
    if "selfreflect" not in params.axes:
        return None
    for key, section in (("selfreflect", params.selfreflect), ("generate.selfreflect", params.generate.selfreflect)):
        if section is None:
            return f"{key}: a value is missing, which the axis selfreflect needs"
    drawn, tested = params.generate.questions.num_samples, params.selfreflect.test_answers
    if tested >= drawn:
        return (
            f"selfreflect.test_answers: got {tested}; must be less than generate.questions.num_samples ({drawn}), "
            "whose other answers are the list that the judge reads"
        )
    return None


def _merge_problem(name: str, method: MethodConfig, methods: dict[str, MethodConfig]) -> str | None:
    """Why a method cannot be merged from what it names; None where it can."""
    merge = method.merge or {}
    trained = [other for other, settings in methods.items() if settings.merge is None]
    if not 1 <= len(merge) <= 2 or not merge.keys() <= set(trained):
        return f"got {merge}; one or two of the methods that are trained are allowed: {', '.join(trained) or 'none'}"
    if not any(merge.values()):
        return "one weight at least must be above 0"
    if method.anchors is not None or method.outside_weight or method.train:
        return f"{name} is merged, not trained: anchors, outside_weight and train must be null, 0 and {{}}"
    return None


def _allowed_keys(schema: Any, location: tuple) -> list[str]:
    """Keys that the section holding ``location`` allows, from the schema's JSON form."""
    root = TypeAdapter(schema).json_schema()
    node = root
    for part in location[:-1]:
        node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return list(node.get("properties", {}))


def validate(values: Any, schema: type[Section] = Params, source: str = "params.yaml") -> Section:
    """Check ``values`` against a schema and return the frozen dataclass.

    Raises:
        ConfigError: Naming the source, the first offending key and what is allowed.
    """
    try:
        return TypeAdapter(schema).validate_python(values)
    except ValidationError as error:
        # A misspelt key is also a missing one; the misspelling is the better message.
        problem = min(error.errors(), key=lambda item: item["type"] != "unexpected_keyword_argument")
    location = tuple(part for part in problem["loc"] if not str(part).startswith("function-after["))
    key = ".".join(map(str, location)) or "(top level)"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "unexpected_keyword_argument":
        message = f"unknown key; the keys allowed here are {', '.join(_allowed_keys(schema, location))}"
    elif problem["type"] == "missing":
        message = "a value is missing"
    elif problem["type"] not in ("value_error", "too_short"):
        message = f"{message[0].lower()}{message[1:]}, got {problem['input']!r}"
    raise ConfigError(f"{source}: {key}: {message}")


def with_conditions(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters with a list of ``conditions``: base and every method where they name none."""
    return {**values, "conditions": values.get("conditions") or [BASE, *(values.get("methods") or {})]}


RETIRED = (
    ("prompts", "perturbations", "genetic"),
    ("generate", "questions", "variants"),
    ("generate", "perturbations", "settings"),
    ("evaluate", "token_budget"),
)
"""Settings that are gone, and that records made with them still name."""
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
    """Read and validate ``params.yaml``; of a record, without RETIRED. Raises ConfigError."""
    values = read_yaml(path)
    for *sections, key in RETIRED:
        found: Any = values
        for section in sections:
            found = found.get(section) if isinstance(found, dict) else None
        if isinstance(found, dict):
            found.pop(key, None)
    return validate(with_conditions(values), source=str(path))
