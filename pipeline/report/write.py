"""One report: metrics.csv, metrics.json, tables, figures, plots and the page, from whatever evaluations exist."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.artifacts.atomic import atomic_entries
from pipeline.config.params import Params
from pipeline.config.seeds import SEEDS
from pipeline.errors import ConfigError
from pipeline.report.ablations.runs import read_ablations
from pipeline.report.assemble import assemble
from pipeline.report.evaluations import METRIC_COLUMNS, Evaluations, read_distinct_prompts, read_evaluations
from pipeline.report.tables.table import missing_evaluations
from pipeline.report.tables.table_text import to_markdown


@dataclass(frozen=True)
class Report:
    """A report; ``sources`` are the ``metrics.json`` of all evaluations, those of other seeds and ablations, too."""

    directory: Path
    evaluations: Evaluations
    tables: list
    sources: list[Path]
    missing_sweeps: list[str]

    @property
    def metrics(self) -> pd.DataFrame:
        """All rows of metrics.csv."""
        return self.evaluations.metrics


def write_report(
    params: Params,
    evals: Sequence[Path],
    prompts: Sequence[Path],
    output: Path,
    adapters: Sequence[Path] = (),
    *,
    sweeps: Path = Path("sweeps"),
    published: Path = Path("data/published"),
    seed_evals: Sequence[tuple[int, Path]] = (),
    varied: Sequence[str] = SEEDS,
) -> Report:
    """Write a report into ``output``, and print its tables.

    Args:
        params: Parameters of the evaluations.
        evals: Directories of evaluations, AXIS/MODEL/CONDITION: one, or one for each of a sweep's cells.
        prompts: Tables of structured prompts.
        output: Directory to write.
        adapters: Directories of adapters, MODEL/METHOD, for plots of training losses.
        sweeps: Directory of sweeps, for the ablations.
        published: Directory of figures that the paper prints.
        seed_evals: Evaluations of the same settings under other seeds, for tables over seeds.
        varied: The keys of the seeds that differ between them; the first tells them apart.

    Raises:
        ConfigError: ``seed_evals`` has the seed of ``evals``.
    """
    own = getattr(params, varied[0])
    if own in dict(seed_evals):
        raise ConfigError(f"seed_evals: {own} is the seed of evals; give evaluations of other seeds")
    evaluations = read_evaluations(*evals)
    others = {
        seed: read_evaluations(*(root for other, root in seed_evals if other == seed)) for seed in dict(seed_evals)
    }
    ablations = read_ablations(sweeps, published)
    paths = [path for read in (evaluations, *others.values()) for path in read.provenance]
    # The metrics alone: provenance files hold times, by which the same report would be another run.
    sources = [Path(path).with_name("metrics.json") for path in dict.fromkeys((*paths, *ablations.trained))]
    with atomic_entries(output) as directory:
        evaluations.metrics[list(METRIC_COLUMNS)].to_csv(directory / "metrics.csv", index=False, encoding="utf-8")
        structured = read_distinct_prompts(prompts)
        tables = assemble(params, evaluations, structured, directory, adapters, ablations, others, varied)
    report = Report(output, evaluations, tables, sources, ablations.missing)
    _announce(params, report)
    return report


def _announce(params: Params, report: Report) -> None:
    evaluations = report.evaluations
    for table in report.tables:
        print(to_markdown(table))
    absent = {key for table in report.tables for key in table.absent} - evaluations.existing
    for key, reason in evaluations.failed.items():
        print(f"FAILED: {key.axis} of {key.model} {key.condition}: {reason}")
    if absent := {key for key in absent if key.axis in evaluations.axes and key not in evaluations.failed}:
        print(f"missing evaluations: {'; '.join(missing_evaluations(absent))}")
    nothing = [axis for axis in params.possible_axes if axis not in evaluations.axes]
    for title, axes in (
        ("switched off (axes)", [axis for axis in nothing if axis not in params.axes]),
        ("axes without any evaluation", [axis for axis in nothing if axis in params.axes]),
    ):
        if axes:
            print(f"{title}: {', '.join(axes)}")
    if report.missing_sweeps:
        print(f"ablations not run: {'; '.join(report.missing_sweeps)}; `make ablations` runs them at the demo's scale")
    print(f"report: {report.directory / 'index.html'}")
