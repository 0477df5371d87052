"""One report from the cells of a sweep: ``python -m pipeline.sweep.tables NAME``, or ``make tables SWEEP=NAME``.

    paper_by_model                              all finished cells, in reports/paper_by_model
    my_epochs --where train.soft.epochs=3       one setting of a sweep over settings

Cells may differ in models and seeds. With several seeds the tables are of the lowest, and further ones are over all.
"""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from pipeline import PROJECT
from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import read_json
from pipeline.axes.registry import HEADLINES
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.compose import compose_params
from pipeline.config.params import validate, with_conditions
from pipeline.config.seeds import SEEDS, varied_seeds
from pipeline.errors import ConfigError
from pipeline.report.cells import Cell, finished_cells
from pipeline.report.evaluations import flatten, read_evaluations
from pipeline.report.write import write_report
from pipeline.sweep.run import Record, override_columns, read_record

SWEEPS = Path("sweeps")
HEADER = "# Merged from cells of {sweep} by `python -m pipeline.sweep.tables`; do not edit.\n# cells: {cells}\n"
REPORT_KEYS = ("experiment", "tests", "evaluate.bootstrap_replicates")
"""Keys that the report itself depends on, besides those of the cells' stages."""


def gather(directory: Path) -> None:
    """Write ``summary.csv``, one row per cell, and ``metrics.csv`` of all finished cells, overrides in front."""
    finished = {cell.directory.name: cell for cell in finished_cells(directory)}
    headlines = {name for names in HEADLINES.values() for name in names}
    summaries, parts = [], [pd.DataFrame(columns=["cell"])]
    for path in sorted(directory.glob("*/record.json")):
        record, name = read_record(path), path.parent.name
        columns = override_columns(record.overrides)
        how = {"status": record.status, "seconds": round(record.seconds, 1), "stage": record.stage, "log": record.log}
        row = {"cell": name, **columns, **how}
        if name in finished:
            metrics = finished[name].evaluations.metrics
            # Settings first, as the reader's key. The metrics name their model already.
            settings = {name: value for name, value in columns.items() if name not in metrics}
            parts.append(pd.DataFrame({"cell": name, **settings}, index=metrics.index).join(metrics))
            for entry in metrics[(metrics["family"] == "") & metrics["metric"].isin(headlines)].itertuples():
                row[f"{entry.model}/{entry.condition}/{entry.split}/{entry.metric}"] = entry.value
            for summary in sorted(path.parent.glob("*/construction/*/summary.json")):
                row |= {f"{summary.parent.name}/{key}": value for key, value in read_json(summary).items()}
        summaries.append(row)
    for name, table in (("summary", pd.DataFrame(summaries)), ("metrics", pd.concat(parts, ignore_index=True))):
        with atomic_path(directory / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)


def run_table(records: Sequence[Record]) -> str:
    """The jobs of one run as text, with the settings in which they differ."""
    settings = pd.DataFrame([override_columns(record.overrides) for record in records]).fillna("")
    columns = ["status", "seconds", "stage", "reason", "log"]
    how = pd.DataFrame([vars(record) for record in records])[columns].round({"seconds": 0})
    cells = pd.DataFrame({"cell": [Path(record.cell).name for record in records]})
    varied = [name for name in settings if settings[name].nunique() > 1]
    return pd.concat([cells, settings[varied], how], axis=1).to_string(index=False)


def chosen_cells(sweep: Path, where: Sequence[str]) -> list[Cell]:
    """The finished cells with these values (KEY=VALUE, read as YAML). Raises ConfigError where there is none."""
    chosen = finished_cells(sweep)
    started = {path.parent.name for path in sweep.glob("*/cell.json")}
    if not chosen:
        known = sorted({path.parent.parent.name for path in sweep.parent.glob("*/*/finished.json")})
        count = f"none of its {len(started)} cells is finished; run the sweep again to go on" if started else "no cell"
        raise ConfigError(f"{sweep}: {count}; finished cells are in {', '.join(known) or 'no sweep'}")
    if left := started - {cell.directory.name for cell in chosen}:
        print(f"left out, because they are not finished: {', '.join(sorted(left))}", file=sys.stderr)
    for condition in where:
        key, equals, text = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition}: write KEY=VALUE, e.g. train.soft.epochs=3")
        values = [(cell, flatten(cell.values)) for cell in chosen]
        if not any(key in flat for _, flat in values):
            near = difflib.get_close_matches(key, {name for _, flat in values for name in flat})
            raise ConfigError(f"--where {key}: no cell has this parameter; near it are {', '.join(near) or 'none'}")
        chosen = [cell for cell, flat in values if key in flat and flat[key] == yaml.safe_load(text)]
        if not chosen:
            there = dict.fromkeys(repr(flat[key]) for _, flat in values if key in flat)
            raise ConfigError(f"--where {condition}: no cell has this value; there are {', '.join(there)}")
    return chosen


def check_agreement(cells: Sequence[Cell]) -> None:
    """Raise ConfigError unless the cells agree in all that stages or the report depend on, but for seeds and models."""
    tracked = tuple(f"{key}." for key in {*REPORT_KEYS, *(key for cell in cells for key in cell.parameters)})
    found: dict[str, dict[str, str]] = {}
    flat = {cell.directory.name: flatten(cell.values) for cell in cells}
    for key in dict.fromkeys(key for values in flat.values() for key in values if f"{key}.".startswith(tracked)):
        for name, values in flat.items() if key not in SEEDS else ():
            if key in values or not key.startswith("models."):
                value = repr(values[key]) if key in values else "absent"
                found.setdefault(key, {}).setdefault(value, name)
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


def merged_values(cells: Sequence[Cell], own: Cell, order: Sequence[str], reports: str) -> dict[str, Any]:
    """Parameters of one report: those of ``own``, with the axes and models of all, those in ``order`` first."""
    models = {name: model for cell in cells for name, model in cell.values["models"].items()}
    ordered = [*(name for name in order if name in models), *sorted(models.keys() - set(order))]
    # Which axes are evaluated changes no artifact: cells may have run different ones.
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.values["axes"]))
    return {**own.values, "reports": reports, "models": {name: models[name] for name in ordered}, "axes": axes}


def main(name: str, output: Path | None, where: Sequence[str]) -> None:
    """Write the report of a sweep's cells and their merged parameters into ``output``."""
    sweep, output = SWEEPS / name, output or Path("reports") / name
    cells = chosen_cells(sweep, where)
    check_agreement(cells)
    try:
        varied = varied_seeds([cell.seeds for cell in cells])
    except ValueError as error:
        lowest = min(cell.seeds["sampling_seed"] for cell in cells)
        raise ConfigError(f"{sweep}: {error}; choose cells, e.g. --where sampling_seed={lowest}") from None
    by_seed: dict[int, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.seeds[varied[0]]):
        by_seed.setdefault(cell.seeds[varied[0]], []).append(cell)
    seed, own = next(iter(by_seed.items()))
    order = list(compose_params(PROJECT / "conf", ["experiment=paper"])["models"])
    values = merged_values(cells, own[0], order, str(output))
    source = f"parameters of {sweep} (cells of an older version: run the sweep again)"
    params = validate(with_conditions(values), source=source)

    def existing(cells: Sequence[Cell], *parts: str) -> list[Path]:
        return [path for cell in cells if (path := cell.artifacts.joinpath(*parts)).exists()]

    if not existing(own, "evals"):
        raise ConfigError(f"{sweep}: its cells of seed {seed} have no evaluation to make tables of")
    output.mkdir(parents=True, exist_ok=True)
    with atomic_path(output / "params.yaml") as temporary:
        names = " ".join(cell.directory.name for cell in cells)
        temporary.write_text(HEADER.format(sweep=sweep, cells=names) + yaml.safe_dump(values, sort_keys=False))
    write_report(
        params,
        existing(own, "evals"),
        [path for split in ("unseen", "ood") for path in existing(own, "prompts", f"{split}.parquet")],
        output,
        existing(own, "adapters"),
        other_seeds={
            other: read_evaluations(*existing(members, "evals")) for other, members in by_seed.items() if other != seed
        },
        varied=varied,
    )
    counts = ", ".join(f"{len(members)} of seed {number}" for number, members in by_seed.items())
    print(f"cells: {counts}; models: {', '.join(values['models'])}; tables are of seed {seed}")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.sweep.tables"))
