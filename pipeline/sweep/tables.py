"""Tables, figures and the page from the finished cells of a sweep.

  python -m pipeline.sweep.tables paper_by_model                        one cell for each model: the paper's tables
  python -m pipeline.sweep.tables seeds --seed 1                        several seeds: tables of one, and over all
  python -m pipeline.sweep.tables epochs --where train.soft.epochs=3    one setting of a sweep over settings

Cells may differ in models and seeds. With several seeds the tables are of the lowest (or of --seed), and further ones
show all seeds: which differ (training's, sampling's or both), spread, intervals and differences between conditions.
Cells that are not finished are named and left out. The merged parameters are written to params.yaml beside the tables.
"""

import argparse
import difflib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pipeline import PROJECT
from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import read_json
from pipeline.command import run_command
from pipeline.compose import compose_params
from pipeline.config.params import read_yaml, validate, with_conditions
from pipeline.config.seeds import SEEDS, varied_seeds
from pipeline.errors import ConfigError
from pipeline.report.evaluations import flatten
from pipeline.report.write import write_report
from pipeline.sweep.run import read_record

CONF = PROJECT / "conf"
STRUCTURED_SPLITS = ("unseen", "ood")
HEADER = "# Merged from cells of {sweep} by `python -m pipeline.sweep.tables`; do not edit.\n# cells: {cells}\n"
REPORT_KEYS = ("experiment", "tests", "evaluate.bootstrap_replicates")
"""Keys that the report itself depends on, besides those of the cells' stages."""


@dataclass(frozen=True)
class SweepCell:
    """A cell as it is on disk."""

    directory: Path
    status: str
    """One of "finished", or how its last run went: "failed", "interrupted", "unfinished" (running, or killed)."""
    reason: str
    """Stage and error of a failed one."""
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    """Content of its params.yaml."""
    tracked: tuple[str, ...]
    """Keys that its stages depend on."""

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
        return self.directory / self.values["artifacts"]

    @property
    def name(self) -> str:
        """Identity and overrides, as a reader tells cells apart."""
        return f"{self.directory.name} [{' '.join(self.overrides)}]"


def read_cells(directory: Path) -> list[SweepCell]:
    """All cells below a sweep's directory that were ever started, by name. Raises ConfigError where there is none."""
    cells = [_read_cell(path.parent) for path in sorted(directory.glob("*/cell.json"))]
    if not cells:
        known = sorted({path.parent.parent.name for path in directory.parent.glob("*/*/cell.json")})
        raise ConfigError(f"{directory}: no cell of such a sweep; {directory.parent} has {', '.join(known) or 'none'}")
    return cells


def _read_cell(directory: Path) -> SweepCell:
    made, status, reason = read_json(directory / "cell.json"), "finished", ""
    if not (directory / "finished.json").exists():
        last = read_record(directory / "record.json") if (directory / "record.json").exists() else None
        status = last.status if last is not None and last.status in ("failed", "interrupted") else "unfinished"
        reason = f"stage {last.stage}: {last.reason}" if last is not None and status == "failed" else ""
    values = read_yaml(directory / "params.yaml")
    return SweepCell(directory, status, reason, tuple(made["overrides"]), values, tuple(made["parameters"]))


def chosen_cells(cells: Sequence[SweepCell], where: Sequence[str]) -> list[SweepCell]:
    """The cells with these values (KEY=VALUE, read as YAML). Raises ConfigError where no cell has key or value."""
    chosen = list(cells)
    for condition in where:
        key, equals, text = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition}: write KEY=VALUE, e.g. train.soft.epochs=3")
        having = [cell for cell in chosen if key in cell.flat]
        if not having:
            near = difflib.get_close_matches(key, {name for cell in cells for name in cell.flat})
            raise ConfigError(f"--where {key}: no cell has this parameter; near it are {', '.join(near) or 'none'}")
        chosen = [cell for cell in having if cell.flat[key] == yaml.safe_load(text)]
        if not chosen:
            values = dict.fromkeys(repr(cell.flat[key]) for cell in having)
            raise ConfigError(f"--where {condition}: no cell has this value; there are {', '.join(values)}")
    return chosen


def check_agreement(cells: Sequence[SweepCell]) -> None:
    """Raise ConfigError that names keys, values and cells, and how to choose, unless the cells fit into one table.

    Compared is what the cells' stages or the report depend on, but for the seeds and the set of models. A model that
    several cells have must be the same in all.
    """
    tracked = tuple(f"{key}." for key in {*REPORT_KEYS, *(key for cell in cells for key in cell.tracked)})
    found: dict[str, dict[str, str]] = {}
    for key in dict.fromkeys(key for cell in cells for key in cell.flat if f"{key}.".startswith(tracked)):
        for cell in cells if key not in SEEDS else ():
            if key in cell.flat or not key.startswith("models."):
                value = repr(cell.flat[key]) if key in cell.flat else "absent"
                found.setdefault(key, {}).setdefault(value, cell.directory.name)
    differing = {key: values for key, values in found.items() if len(values) > 1}
    if differing:
        texts = (
            f"{key} ({', '.join(f'{value} in {name}' for value, name in values.items())})"
            for key, values in differing.items()
        )
        raise ConfigError(
            f"{cells[0].directory.parent}: cells of one table can differ in models and seeds alone; these differ in "
            f"{'; '.join(texts)}. Choose cells with --where {next(iter(differing))}=VALUE"
        )


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


def merged_values(cells: Sequence[SweepCell], own: SweepCell, order: Sequence[str], reports: str) -> dict[str, Any]:
    """Parameters of one table of cells that agree: those of ``own``, with the models of all.

    Models in ``order`` come first, others follow by name; ``reports`` is the directory of the report.
    """
    models = {name: model for cell in cells for name, model in cell.values["models"].items()}
    rank = {name: place for place, name in enumerate(order)}
    ordered = sorted(models, key=lambda name: (rank.get(name, len(rank)), name))
    merged = {**own.values, "reports": reports, "models": {name: models[name] for name in ordered}}
    if "axes" in merged:
        # Which axes are evaluated changes no artifact: cells may have run different ones.
        merged["axes"] = list(dict.fromkeys(axis for cell in cells for axis in cell.values.get("axes", ())))
    return merged


def existing(cells: Sequence[SweepCell], *parts: str) -> list[Path]:
    """A file or directory of each cell's artifacts, of the cells that have it."""
    paths = (cell.artifacts.joinpath(*parts) for cell in cells)
    return [path for path in paths if path.exists()]


def select(directory: Path, where: Sequence[str], unfinished: bool) -> list[SweepCell]:
    """The cells that the tables are made of; says on standard error which are left out.

    Raises ConfigError where there is no such cell, none is finished, or they do not fit into one table.
    """
    cells = chosen_cells(read_cells(directory), where)
    taken = [cell for cell in cells if unfinished or cell.status == "finished"]
    for cell in cells:
        if cell not in taken:
            reason = f": {cell.reason}; log: {cell.directory / 'run.log'}" if cell.reason else ""
            print(f"left out: {cell.name} is {cell.status}{reason}", file=sys.stderr)
    if not taken:
        counts = ", ".join(f"{number} {status}" for status, number in Counter(cell.status for cell in cells).items())
        raise ConfigError(
            f"{directory}: none of its cells is finished ({counts}); run the sweep again to go on, or "
            "take what there is with --unfinished"
        )
    check_agreement(taken)
    return taken


def main(
    name: str, directory: Path, output: Path | None, seed: int | None, where: Sequence[str], unfinished: bool
) -> None:
    """Write the report of a sweep's cells and their merged parameters into ``output``."""
    sweep, output = directory / name, output or Path("reports") / name
    taken = select(sweep, where, unfinished)
    by_seed = cells_by_seed(taken)
    main_seed = min(by_seed) if seed is None else seed
    if main_seed not in by_seed:
        raise ConfigError(f"--seed {seed}: no finished cell has it; there are {', '.join(map(str, by_seed))}")
    own = by_seed[main_seed]
    values = merged_values(taken, own[0], list(compose_params(CONF, ["experiment=paper"])["models"]), str(output))
    source = f"parameters of {sweep} (cells of an older version: run the sweep again)"
    params = validate(with_conditions(values), source=source)
    evaluations = {number: existing(members, "evals") for number, members in by_seed.items()}
    if not evaluations[main_seed]:
        raise ConfigError(f"{sweep}: its cells of seed {main_seed} have no evaluation to make tables of")
    output.mkdir(parents=True, exist_ok=True)
    with atomic_path(output / "params.yaml") as temporary:
        names = " ".join(cell.directory.name for cell in taken)
        temporary.write_text(HEADER.format(sweep=sweep, cells=names) + yaml.safe_dump(values, sort_keys=False))
    write_report(
        params,
        evaluations.pop(main_seed),
        [path for split in STRUCTURED_SPLITS for path in existing(own, "prompts", f"{split}.parquet")],
        output,
        existing(own, "adapters"),
        sweeps=directory,
        seed_evals=[(number, path) for number, paths in evaluations.items() for path in paths],
        varied=varied_in(taken),
    )
    counts = ", ".join(f"{len(members)} of seed {number}" for number, members in by_seed.items())
    print(f"cells: {counts}; models: {', '.join(values['models'])}; tables are of seed {main_seed}")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.sweep.tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", help="name of the sweep")
    parser.add_argument(
        "--directory", type=Path, default=Path("sweeps"), help="directory of all sweeps (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, help="directory to write (default: reports/NAME)")
    parser.add_argument("--seed", type=int, help="seed of the tables, of those that differ (default: the lowest)")
    parser.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="take the cells with this value only"
    )
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="take what unfinished and failed cells have evaluated, too; it may be of an earlier state of the code",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run_command(main, parse_arguments())
