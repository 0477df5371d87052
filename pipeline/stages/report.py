"""Tables, figures and the page from whatever evaluations exist; says which cells are missing."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from pipeline.artifacts.atomic import atomic_entries
from pipeline.artifacts.storage import METRIC_COLUMNS
from pipeline.command import run_stage
from pipeline.config.params import Params, load_params
from pipeline.errors import ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.record.tracking import stage_run
from pipeline.stages.arguments import stage_parser


def main(
    params: Path,
    evals: Sequence[Path],
    prompts: Sequence[Path],
    output: Path,
    adapters: Sequence[Path] = (),
    sweeps: Path = Path("sweeps"),
    published: Path = Path("data/published"),
    seed_evals: Sequence[tuple[int, Path]] = (),
) -> None:
    """Write ``metrics.csv``, ``metrics.json``, ``tables/``, ``figures/``, ``plots/`` and ``index.html``."""
    from pipeline.report.ablations.ablations import read_ablations
    from pipeline.report.assemble import assemble
    from pipeline.report.evaluations import read_distinct_prompts, read_evaluations

    config = load_params(params)
    if config.seed in dict(seed_evals):
        raise ConfigError(f"--seed-evals: {config.seed} is the seed of --evals; give evaluations of other seeds")
    evaluations = read_evaluations(*evals)
    others = {
        seed: read_evaluations(*(root for other, root in seed_evals if other == seed)) for seed in dict(seed_evals)
    }
    ablations = read_ablations(sweeps, published)
    paths = [path for read in (evaluations, *others.values()) for path in read.provenance]
    # The metrics alone: provenance files hold times, by which the same report would be another run.
    sources = [Path(path).with_name("metrics.json") for path in dict.fromkeys((*paths, *ablations.trained))]
    record = StageRecord("report", {"experiment": config.experiment}, sources)
    with atomic_entries(output) as directory:
        evaluations.metrics[list(METRIC_COLUMNS)].to_csv(directory / "metrics.csv", index=False, encoding="utf-8")
        tables = assemble(config, evaluations, read_distinct_prompts(prompts), directory, adapters, ablations, others)
    _announce(config, record, evaluations, tables, ablations.missing, output)


def _announce(
    config: Params, record: StageRecord, evaluations, tables: list, missing_sweeps: list[str], output: Path
) -> None:
    from pipeline.report.evaluations import AXES
    from pipeline.report.tables.table import missing_evaluations
    from pipeline.report.tables.table_text import to_markdown

    for table in tables:
        print(to_markdown(table))
    absent = {cell for table in tables for cell in table.absent} - evaluations.existing
    absent = {cell for cell in absent if cell[0] in evaluations.axes}
    if absent:
        print(f"missing evaluations: {'; '.join(missing_evaluations(absent))}")
    nothing = [axis for axis in AXES if axis not in evaluations.axes]
    if off := [axis for axis in nothing if axis not in config.axes]:
        print(f"switched off (axes): {', '.join(off)}")
    if nothing := [axis for axis in nothing if axis in config.axes]:
        print(f"axes without any evaluation: {', '.join(nothing)}")
    if missing_sweeps:
        print(f"ablations not run: {'; '.join(missing_sweeps)}; `make ablations` runs them at the demo's scale")
    print(f"report: {output / 'index.html'}")
    with stage_run(config, record) as run:
        run.log({"tables": len(tables), "evaluations": len(evaluations.existing)})
        run.table("metrics", evaluations.metrics)
        for picture in sorted((output / "figures").glob("*.png")):
            run.image(picture.stem, picture)


def _seed_directory(text: str) -> tuple[int, Path]:
    seed, equals, directory = text.partition("=")
    if not (seed.isdigit() and equals and directory):
        raise argparse.ArgumentTypeError(f"{text!r} is not SEED=DIRECTORY")
    return int(seed), Path(directory)


def parse_arguments() -> argparse.Namespace:
    """Command line of the stage."""
    parser = stage_parser(__doc__)
    parser.add_argument(
        "--evals",
        type=Path,
        nargs="+",
        required=True,
        help="directories of evaluations, AXIS/MODEL/CONDITION: one, or one for each of a sweep's cells",
    )
    parser.add_argument("--prompts", type=Path, nargs="+", required=True, help="tables of structured prompts")
    parser.add_argument(
        "--adapters",
        type=Path,
        nargs="+",
        default=[],
        help="directories of adapters, MODEL/METHOD: plots of training losses",
    )
    parser.add_argument(
        "--seed-evals",
        type=_seed_directory,
        nargs="+",
        default=[],
        metavar="SEED=DIRECTORY",
        help="evaluations of the same settings under other seeds: tables over training seeds",
    )
    parser.add_argument(
        "--sweeps", type=Path, default=Path("sweeps"), help="directory of sweeps: ablations (default: %(default)s)"
    )
    parser.add_argument(
        "--published",
        type=Path,
        default=Path("data/published"),
        help="directory of figures that the paper prints (default: %(default)s)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("reports"), help="directory to write (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_stage(main, parse_arguments())
