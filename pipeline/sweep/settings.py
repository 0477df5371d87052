"""The section ``sweep`` of the composed configuration, and the multirun overrides that a grid or cells become."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt
from pydantic.dataclasses import dataclass

from pipeline.config.evaluation import STRICT
from pipeline.config.override_errors import composed_values, find_problem
from pipeline.config.params import validate
from pipeline.errors import ConfigError

PRIMARY = "multirun"  # primary configuration of the sweep application
MULTIRUN = ("-m", "--multirun")
SHOWS = ("--cfg", "-c", "--info", "-i")  # options with which Hydra shows something and runs nothing
Scalar = str | StrictInt | float | StrictBool | None
Value = Scalar | list[Scalar]


@dataclass(frozen=True, config=STRICT)
class SweepConfig:
    """One sweep; the fields are explained in ``conf/sweep/chosen.yaml``."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-]+$")]
    directory: str
    cache: str
    targets: Annotated[list[str], Field(min_length=1)]
    grid: dict[str, list[Value]]
    cells: list[dict[str, Value]]
    cell: StrictInt | None
    gpus: list[StrictInt] | None


def sweep_config(values: Mapping, source: str) -> SweepConfig:
    """Validate the section. Raises ConfigError."""
    config = validate(dict(values), SweepConfig, source)
    if config.name in ("jobs", "cache"):
        raise ConfigError(f"{source}: name: {config.name!r} is taken by the sweeps' own directories; choose another")
    if config.cell is not None and not 0 <= config.cell < len(config.cells):
        raise ConfigError(f"{source}: cell: got {config.cell}; the preset has {len(config.cells)} cells, from 0")
    return config


def override_key(argument: str) -> str:
    """The key that a Hydra override sets, without ``+``, ``++`` or ``~``; empty for an option such as ``-m``."""
    return "" if argument.startswith("-") else argument.partition("=")[0].lstrip("+~").partition("@")[0]


def value_text(key: str, value: Value) -> str:
    """A value in a Hydra override. Raises ConfigError for a text that would be read as something else."""
    if isinstance(value, list):
        return f"[{','.join(value_text(key, member) for member in value)}]"
    if isinstance(value, str) and not all(letter.isalnum() or letter in "_-./" for letter in value):
        raise ConfigError(f"sweep: {key}: {value!r} holds characters that an override would need quotes for")
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _is_override(argument: str) -> bool:
    return not argument.startswith("-") and ("=" in argument or argument.startswith("~"))


def expand_arguments(arguments: Sequence[str], conf: Path) -> tuple[list[str], Path]:
    """The command line for Hydra, where a preset's grid or cells have become sweeps; and the directory of all sweeps.

    What the command line itself sets wins. Raises ConfigError.
    """
    # Hydra cannot set a group to null on the command line; it can take the group away. Its parser takes overrides in
    # one piece only; options (and their values, without "=") go before them.
    kept = sorted(("~model" if argument == "model=null" else argument for argument in arguments), key=_is_override)
    if any(item.partition("=")[0] in SHOWS for item in kept):
        # Which Hydra refuses together with a multirun.
        kept = [item for item in kept if item not in MULTIRUN]
    several = any(item in MULTIRUN for item in kept)
    if problem := find_problem(conf, PRIMARY, [item for item in kept if _is_override(item)], several):
        raise ConfigError(f"{conf}: {problem}")
    named = {override_key(argument) for argument in kept}
    chosen = [item for item in kept if override_key(item).split(".")[0] == "sweep"]
    overrides = [item for item in chosen if override_key(item) != "sweep.cell"]
    preset = sweep_config(composed_values(conf, PRIMARY, overrides, "sweep"), f"{conf}/sweep")
    for key, values in preset.grid.items():
        # What a preset gives one value holds for a single job, too.
        if key not in named and (several or len(values) == 1):
            kept.append(f"{key}={','.join(value_text(key, value) for value in values)}")
    if several and preset.cells and "sweep.cell" not in named:
        # Of cells that differ in nothing that the command line leaves open, the first.
        open_values = [json.dumps({k: v for k, v in cell.items() if k not in named}) for cell in preset.cells]
        kept.append(f"sweep.cell={','.join(str(open_values.index(text)) for text in dict.fromkeys(open_values))}")
    return kept, Path(preset.directory)


def cell_overrides(task_overrides: Sequence[str], config: SweepConfig) -> list[str]:
    """Overrides of ``conf/config.yaml`` for one job, from what Hydra passed to it. Raises ConfigError."""
    values = {override_key(item): item.partition("=")[2] for item in task_overrides}
    model = values.get("model", "null")
    overrides = [item for item in task_overrides if override_key(item).split(".")[0] not in ("sweep", "model")]
    if model != "null":
        if "models" in {key.split(".")[0] for key in values}:
            raise ConfigError("model= adds a whole model; it does not go with overrides of models.*")
        if values.get("experiment", "one_model") != "one_model":
            raise ConfigError(
                f"model={model} belongs to the experiment one_model; "
                f"experiment={values['experiment']} has models of its own"
            )
        overrides = [item for item in overrides if override_key(item) != "experiment"]
        overrides = ["experiment=one_model", f"+model@models.{model}={model}", *overrides]
    if config.cell is not None:
        cell = config.cells[config.cell]
        overrides += [f"{key}={value_text(key, value)}" for key, value in cell.items() if key not in values]
    return overrides
