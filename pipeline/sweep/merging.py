"""What the finished cells of a sweep have in common: parameters merged over models, cells by training seed."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pipeline.artifacts.storage import read_json
from pipeline.config.params import read_yaml
from pipeline.config.seeds import SEEDS, varied_seeds
from pipeline.errors import ConfigError
from pipeline.report.ablations.runs import flatten
from pipeline.sweep.run import read_record

REPORT_KEYS = ("experiment", "tests", "evaluate.bootstrap_replicates")
"""Keys that the report itself depends on, besides those of the cells' stages."""
SHOWN_VALUES = 4
"""Most values of a key that an error lists."""


@dataclass(frozen=True)
class SweepCell:
    """A cell as it is on disk.

    Attributes:
        directory: Its directory.
        status: "finished", or how its last run went: "failed", "interrupted", "unfinished" (running, or killed).
        reason: Stage and error of a failed one.
        overrides: Its overrides.
        values: Content of its params.yaml.
        tracked: Keys that its stages depend on.
    """

    directory: Path
    status: str
    reason: str
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    tracked: tuple[str, ...]

    @cached_property
    def flat(self) -> dict[str, Any]:
        """All parameters by dotted key."""
        return flatten(self.values)

    @property
    def seeds(self) -> dict[str, int]:
        """Root seeds of its draws, by key of SEEDS."""
        return {key: self.values.get(key, self.values["seed"]) for key in SEEDS}

    @property
    def artifacts(self) -> Path:
        """Root of its artifacts."""
        return self.directory / self.values["artifacts"]

    @property
    def name(self) -> str:
        """Identity and overrides, as a reader tells cells apart."""
        return f"{self.directory.name} [{' '.join(self.overrides)}]"


def read_cells(directory: Path) -> list[SweepCell]:
    """All cells below a sweep's directory that were ever started, by name.

    Raises:
        ConfigError: There is no such sweep, or it has no cell.
        ArtifactError: A cell's record is unreadable.
    """
    cells = [_read_cell(path.parent) for path in sorted(directory.glob("*/cell.json"))]
    if not cells:
        known = sorted({path.parent.parent.name for path in directory.parent.glob("*/*/cell.json")})
        raise ConfigError(f"{directory}: no cell of such a sweep; {directory.parent} has {', '.join(known) or 'none'}")
    return cells


def _read_cell(directory: Path) -> SweepCell:
    record = read_json(directory / "cell.json")
    status, reason = "finished", ""
    if not (directory / "finished.json").exists():
        path = directory / "record.json"
        last = read_record(path) if path.exists() else None
        status = last.status if last is not None and last.status in ("failed", "interrupted") else "unfinished"
        reason = f"stage {last.stage}: {last.reason}" if last is not None and status == "failed" else ""
    values = read_yaml(directory / "params.yaml")
    return SweepCell(directory, status, reason, tuple(record["overrides"]), values, tuple(record["parameters"]))


def chosen_cells(cells: Sequence[SweepCell], where: Sequence[str], names: Sequence[str] = ()) -> list[SweepCell]:
    """The cells with these values and names.

    Args:
        cells: All cells.
        where: KEY=VALUE; the value is read as YAML.
        names: Directory names; none takes all.

    Raises:
        ConfigError: No cell has the key, the value or the name.
    """
    known = {cell.directory.name for cell in cells}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"--cells {unknown[0]}: there is no such cell; there are {', '.join(sorted(known))}")
    chosen = [cell for cell in cells if not names or cell.directory.name in names]
    for condition in where:
        key, equals, text = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition}: write KEY=VALUE, e.g. train.soft.epochs=3")
        keys = sorted({name for cell in cells for name in cell.flat})
        if key not in keys:
            near = difflib.get_close_matches(key, keys) or keys
            raise ConfigError(f"--where {key}: no cell has this parameter; near it are {', '.join(near[:5])}")
        value, before = yaml.safe_load(text), chosen
        chosen = [cell for cell in before if key in cell.flat and cell.flat[key] == value]
        if not chosen:
            found = dict.fromkeys(f"{cell.flat[key]!r}" for cell in before if key in cell.flat)
            raise ConfigError(f"--where {condition}: no cell has this value; there are {', '.join(found)}")
    return chosen


def differing_keys(cells: Sequence[SweepCell]) -> dict[str, dict[str, SweepCell]]:
    """Parameters that differ between cells though a common table needs them to agree: the first cell by value.

    Compared is what the cells' stages or the report depend on: all but the seeds, the set of models, and what changes
    no artifact. A model that several cells have must be the same in all.
    """
    tracked = dict.fromkeys([*REPORT_KEYS, *(key for cell in cells for key in cell.tracked)])
    prefixes = tuple(f"{key}." for key in tracked)
    found: dict[str, dict[str, SweepCell]] = {}
    for cell in cells:
        for key, value in cell.flat.items():
            if key not in SEEDS and (key in tracked or key.startswith(prefixes)):
                found.setdefault(key, {}).setdefault(repr(value), cell)
    absent = {
        key: next((cell for cell in cells if key not in cell.flat), None)
        for key in found
        if not key.startswith("models.")
    }
    found = {key: {**values, "absent": cell} if (cell := absent.get(key)) else values for key, values in found.items()}
    return {key: values for key, values in found.items() if len(values) > 1}


def check_agreement(cells: Sequence[SweepCell]) -> None:
    """Raise ConfigError that names keys, values and cells, and how to choose, unless the cells fit into one table."""
    differing = differing_keys(cells)
    if not differing:
        return
    texts = []
    for key, by_value in differing.items():
        shown = [f"{value} in {cell.directory.name}" for value, cell in list(by_value.items())[:SHOWN_VALUES]]
        more = f" and {len(by_value) - SHOWN_VALUES} other values" if len(by_value) > SHOWN_VALUES else ""
        texts.append(f"{key} ({', '.join(shown)}{more})")
    first = cells[0]
    # One --where may settle several keys, but which is not known here.
    choices = [f"--where {key}={_yaml_text(first.flat[key])}" for key in differing if key in first.flat]
    raise ConfigError(
        f"{first.directory.parent}: cells of one table can differ in models and seeds alone; these differ in "
        f"{'; '.join(texts)}. Choose cells, e.g. {' '.join(choices[:SHOWN_VALUES]) or '--cells IDENTITY ...'}"
    )


def _yaml_text(value: Any) -> str:
    """A value as ``--where`` reads it."""
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("\n").removesuffix("\n...")


def varied_in(cells: Sequence[SweepCell]) -> tuple[str, ...]:
    """The keys of SEEDS that differ between cells, ``varied_seeds``. Raises ConfigError where they are crossed."""
    try:
        return varied_seeds([cell.seeds for cell in cells])
    except ValueError as error:
        sweep, lowest = cells[0].directory.parent, min(cell.seeds["sampling_seed"] for cell in cells)
        raise ConfigError(f"{sweep}: {error}; choose cells, e.g. --where sampling_seed={lowest}") from None


def cells_by_seed(cells: Sequence[SweepCell]) -> dict[int, list[SweepCell]]:
    """The cells of each seed, by the first of ``varied_in``, seeds in order. Raises ConfigError."""
    key = varied_in(cells)[0]
    seeds = sorted({cell.seeds[key] for cell in cells})
    return {seed: [cell for cell in cells if cell.seeds[key] == seed] for seed in seeds}


def merged_values(cells: Sequence[SweepCell], seed: int, order: Sequence[str], reports: str) -> dict[str, Any]:
    """Parameters of one table of the cells: those of the first of the seed, with the models of all.

    Args:
        cells: Cells that agree (``check_agreement``).
        seed: Seed of the table.
        order: Models that come first, in this order; others follow by name.
        reports: Directory of the report.

    Raises:
        ConfigError: No cell has the seed.
    """
    by_seed = cells_by_seed(cells)
    if seed not in by_seed:
        raise ConfigError(f"--seed {seed}: no finished cell has it; there are {', '.join(map(str, by_seed))}")
    models = {name: model for cell in cells for name, model in cell.values["models"].items()}
    rank = {name: place for place, name in enumerate(order)}
    ordered = sorted(models, key=lambda name: (rank.get(name, len(rank)), name))
    merged = {**by_seed[seed][0].values, "reports": reports, "models": {name: models[name] for name in ordered}}
    if "axes" in merged:
        # Which axes are evaluated changes no artifact: cells may have run different ones.
        merged["axes"] = list(dict.fromkeys(axis for cell in cells for axis in cell.values.get("axes", ())))
    return merged
