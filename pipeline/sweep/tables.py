"""Tables, figures and the page from the finished cells of a sweep.

  python -m pipeline.sweep.tables paper_by_model                        one cell for each model: the paper's tables
  python -m pipeline.sweep.tables seeds --seed 1                        several seeds: tables of one, and over all
  python -m pipeline.sweep.tables epochs --where train.soft.epochs=3    one setting of a sweep over settings

Cells may differ in models and seeds. With several seeds the tables are of the lowest (or of --seed), and further ones
show all seeds: which differ (training's, sampling's or both), spread, intervals and differences between conditions.
Cells that are not finished are named and left out. The merged parameters are written to params.yaml beside the tables.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

from pipeline import PROJECT
from pipeline.artifacts.atomic import atomic_path
from pipeline.artifacts.storage import read_json
from pipeline.command import run_command
from pipeline.compose import compose_params
from pipeline.config.params import validate, with_conditions
from pipeline.errors import ConfigError
from pipeline.report.write import write_report
from pipeline.sweep.merging import (
    SweepCell,
    cells_by_seed,
    check_agreement,
    chosen_cells,
    merged_values,
    read_cells,
    varied_in,
)

CONF = PROJECT / "conf"
STRUCTURED_SPLITS = ("unseen", "ood")
HEADER = """\
# Merged from cells of {sweep} by `python -m pipeline.sweep.tables`; do not edit.
# cells: {cells}
"""


def left_out_lines(cells: Sequence[SweepCell]) -> list[str]:
    """One line for each cell that is not finished."""
    lines = []
    for cell in cells:
        reason = f": {cell.reason}; log: {cell.directory / 'run.log'}" if cell.reason else ""
        lines.append(f"left out: {cell.name} is {cell.status}{reason}")
    return lines


def existing(cells: Sequence[SweepCell], *parts: str) -> list[Path]:
    """A file or directory of each cell's artifacts, of the cells that have it."""
    paths = (cell.artifacts.joinpath(*parts) for cell in cells)
    return [path for path in paths if path.exists()]


def commit_line(roots: Sequence[Path]) -> str | None:
    """A remark where evaluations below the directories were made at several commits; None where at one."""
    from pipeline.report.page.page import commit_text

    counts = Counter(commit_text(read_json(path)) for root in roots for path in root.glob("*/*/*/provenance.json"))
    if len(counts) < 2:
        return None
    listed = ", ".join(f"{number} of {commit}" for commit, number in sorted(counts.items()))
    return f"evaluations of several commits: {listed}; the page names that of each"


def select(directory: Path, where: Sequence[str], names: Sequence[str], unfinished: bool) -> list[SweepCell]:
    """The cells that the tables are made of; says on standard error which are left out.

    Raises:
        ConfigError: There is no such cell, none is finished, or they do not fit into one table.
    """
    cells = chosen_cells(read_cells(directory), where, names)
    taken = [cell for cell in cells if unfinished or cell.status == "finished"]
    for line in left_out_lines([cell for cell in cells if cell not in taken]):
        print(line, file=sys.stderr)
    if not taken:
        counts = ", ".join(f"{number} {status}" for status, number in Counter(cell.status for cell in cells).items())
        raise ConfigError(
            f"{directory}: none of its cells is finished ({counts}); run the sweep again to go on, or "
            "take what there is with --unfinished"
        )
    check_agreement(taken)
    return taken


def main(
    name: str,
    directory: Path,
    output: Path | None,
    seed: int | None,
    where: Sequence[str],
    cells: Sequence[str],
    unfinished: bool,
) -> None:
    """Write the report of a sweep's cells and their merged parameters into ``output``."""
    sweep, output = directory / name, output or Path("reports") / name
    taken = select(sweep, where, cells, unfinished)
    by_seed = cells_by_seed(taken)
    main_seed = min(by_seed) if seed is None else seed
    paper = list(compose_params(CONF, ["experiment=paper"])["models"])
    values = merged_values(taken, main_seed, paper, str(output))
    source = f"parameters of {sweep} (cells of an older version: run the sweep again)"
    params = validate(with_conditions(values), source=source)
    evaluations = {number: existing(members, "evals") for number, members in by_seed.items()}
    if not evaluations[main_seed]:
        raise ConfigError(f"{sweep}: its cells of seed {main_seed} have no evaluation to make tables of")
    if remark := commit_line(existing(taken, "evals")):
        print(remark, file=sys.stderr)
    output.mkdir(parents=True, exist_ok=True)
    with atomic_path(output / "params.yaml") as temporary:
        names = " ".join(cell.directory.name for cell in taken)
        temporary.write_text(HEADER.format(sweep=sweep, cells=names) + yaml.safe_dump(values, sort_keys=False))
    own = by_seed[main_seed]
    prompts = [path for split in STRUCTURED_SPLITS for path in existing(own, "prompts", f"{split}.parquet")]
    write_report(
        params,
        evaluations.pop(main_seed),
        prompts,
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
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="take the cells with this value only; may be repeated",
    )
    parser.add_argument(
        "--cells", nargs="+", default=[], metavar="IDENTITY", help="take these cells only, by their directories' names"
    )
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="take what unfinished and failed cells have evaluated, too; it may be of an earlier state of the code",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run_command(main, parse_arguments())
