"""One report: metrics.csv, metrics.json, tables, figures, plots and the page, from whatever evaluations exist."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.artifacts.atomic import atomic_entries
from pipeline.axes import AXES, axis_modules
from pipeline.axes.structured.tables import TESTS_TABLE as STRUCTURED_TESTS
from pipeline.config.evaluation import PEOPLE_AXES, QUESTION_AXES, enabled_baselines
from pipeline.config.params import BASE, Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.errors import ConfigError
from pipeline.report.ablations.figures import ablation_drawings
from pipeline.report.ablations.runs import Ablations, read_ablations
from pipeline.report.ablations.tables import ablation_tables
from pipeline.report.across_axes.comparisons import transfer_comparisons, transfer_tests_table
from pipeline.report.across_axes.frontier import GENERATIVE_SUMMARY, chosen_methods, frontier_table
from pipeline.report.across_axes.seeds import seed_tables
from pipeline.report.axis_report import AxisReport
from pipeline.report.evaluations import (
    METRIC_COLUMNS,
    EvaluationKey,
    Evaluations,
    ReportContext,
    prompt_format,
    read_distinct_prompts,
    read_evaluations,
)
from pipeline.report.figures.drawing import draw_all
from pipeline.report.figures.method import method_drawings
from pipeline.report.page.answers import Answer, PairedTests, calibration_answer, cost_answer, transfer_answer
from pipeline.report.page.page import FigureBlock, Section, report_page
from pipeline.report.retention import retention_summary
from pipeline.report.settings import settings_tables
from pipeline.report.table import Table, specified
from pipeline.report.table_text import latex_document, to_markdown, write_table_texts
from pipeline.report.tracked_files import write_tracked_files

DEMO = "demo"
"""Experiment whose results are not the paper's."""
DEMO_NOTE = "Demo: a small embedded model and stand-ins for data and evaluators; no result of the paper's experiment. "
DEMO_MARK = "demo: small embedded model, not the paper's experiment"
SYNTHETIC_NOTE = "Nobody was asked these questions: the counts of people's answers are synthetic. "
REPORTS: dict[str, AxisReport] = {axis: module.REPORT for axis, module in axis_modules("report").items()}
"""What each axis shows."""
SECTIONS = {
    "summary": ("Summary", "Does fine-tuning on numbers carry over to language, and what does it cost elsewhere?"),
    **{axis: (AXES[axis].title, report.explanation) for axis, report in REPORTS.items()},
    "seeds": (
        "Training seeds",
        "The same settings trained, sampled and evaluated anew with other seeds: how far a number of one run can be "
        "relied on. All other tables and figures are of one seed.",
    ),
    "ablation": (
        "Ablation tables",
        "How fine the strings are that a model trains on, how many samples it sees, and what the strings cost to "
        "build. Each setting is trained with several seeds; a difference within seed noise is no finding. `make "
        "ablations` runs them at the demo's scale.",
    ),
    "method": ("Method and settings", "What was trained on, and how; the paper's values stand beside ours."),
}
"""Titles and explanations of the page's sections, in order; those of an axis have its name."""
Tables = dict[str, list[Table]]
"""Tables by section."""


@dataclass(frozen=True)
class Report:
    """A report; ``sources`` are the ``metrics.json`` of all evaluations, those of other seeds and ablations, too."""

    directory: Path
    evaluations: Evaluations
    tables: list[Table]
    sources: list[Path]

    @property
    def metrics(self) -> pd.DataFrame:
        """All rows of metrics.csv."""
        return self.evaluations.metrics


def tables_and_answers(context: ReportContext) -> tuple[Tables, list[Answer]]:
    """All tables but those over seeds and of ablations, and the answers of the first screen."""
    params, axes = context.params, {axis: report.make_tables(context) for axis, report in REPORTS.items()}
    between = next((table.frame for table in axes["structured"] if table.name == STRUCTURED_TESTS), None)
    beyond = transfer_comparisons(params, context.evaluations)
    choices = chosen_methods(context, between)
    summary = [
        frontier_table(context, choices),
        specified(GENERATIVE_SUMMARY, context, context.conditions),
        transfer_tests_table(context, beyond),
        retention_summary(context),
    ]
    tables = {"summary": [table for table in summary if table is not None], **axes}
    tables["method"] = settings_tables(params, context.prompts)
    against_base = [context.tests("retention")]
    tests = PairedTests(between, beyond if len(beyond) else None, against_base)
    answers = [
        calibration_answer(context, tests),
        cost_answer(context, tests, choices),
        transfer_answer(context, tests),
    ]
    return tables, answers


def _notes(params: Params, demo: Iterable[str], seeds: Sequence[int], varied: Sequence[str]) -> dict[str, str]:
    """What is said before the note of every table of a section."""
    notes = dict.fromkeys(SECTIONS, "")
    for name in demo:
        notes[name] += DEMO_NOTE
    if len(seeds) > 1:
        title = SEED_TITLES[varied[0]]
        listed = ", ".join(map(str, seeds))
        for name in set(SECTIONS) - {"seeds", "ablation", "method"}:
            notes[name] += (
                f"{title} {getattr(params, varied[0])} alone; seeds {listed} are together in the tables over "
                f"{title.lower()}s. "
            )
    questions = params.prompts.questions
    for name in PEOPLE_AXES if questions is not None and questions.synthetic_people else ():
        notes[name] += SYNTHETIC_NOTE
    return notes


def _traced(table: Table, evaluations: Evaluations, axis: str) -> Table:
    """The table whose file names the evaluation behind every row."""
    columns = set(table.frame)
    if not {"model", "condition"} <= columns or "provenance" in columns:
        return table
    return dataclasses.replace(table, frame=evaluations.with_provenance(axis, table.frame))


def _draw(
    context: ReportContext, ablations: Ablations, demo: set[str], notes: Mapping[str, str], directory: Path
) -> dict[str, list[FigureBlock]]:
    """Draw the figures that there is something to show in; those of the demo are marked, but for the method's."""
    drawings = {
        **{axis: report.drawings(context) for axis, report in REPORTS.items() if report.drawings},
        "method": method_drawings(context.params.seed),
        "ablation": ablation_drawings(ablations, context.params, context.prompts),
    }
    for section in demo & drawings.keys() - {"method"}:
        drawings[section] = {
            name: dataclasses.replace(drawing, mark=DEMO_MARK) for name, drawing in drawings[section].items()
        }
    blocks = {}
    for section, names in draw_all(drawings, directory).items():
        note = SYNTHETIC_NOTE if SYNTHETIC_NOTE in notes[section] else ""
        captions = {name: note + drawings[section][name].caption for name in names}
        blocks[section] = [FigureBlock(name, captions[name], directory / f"{name}.png") for name in names]
    return blocks


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

    ``evals`` and ``adapters`` are directories AXIS/MODEL/CONDITION and MODEL/METHOD, one or those of a sweep's cells;
    ``sweeps`` those of the ablations, ``published`` has figures that the paper prints. ``seed_evals`` are evaluations
    of the same settings under other seeds; ``varied`` the keys of the seeds that differ, of which the first tells them
    apart.

    Raises ConfigError: ``seed_evals`` has the seed of ``evals``.
    """
    own = getattr(params, varied[0])
    if own in dict(seed_evals):
        raise ConfigError(f"seed_evals: {own} is the seed of evals; give evaluations of other seeds")
    evaluations = read_evaluations(*evals)
    seeds = {own: evaluations} | {
        seed: read_evaluations(*(root for other, root in seed_evals if other == seed)) for seed in dict(seed_evals)
    }
    seeds = dict(sorted(seeds.items()))
    ablations = read_ablations(sweeps, published)
    context = ReportContext(params, evaluations, read_distinct_prompts(prompts), prompt_format(seeds.values()))
    by_seed = {path: content for read in seeds.values() for path, content in read.provenance.items()}
    demo = set(SECTIONS) if params.experiment == DEMO else set()
    if not ablations.are_all_of(params.models):
        # Sweeps may train other models at the paper's scale.
        demo -= {"ablation"}
    notes = _notes(params, demo, list(seeds), varied)
    with atomic_entries(output) as directory:
        for folder in ("tables", "figures"):
            (directory / folder).mkdir()
        evaluations.metrics[list(METRIC_COLUMNS)].to_csv(directory / "metrics.csv", index=False, encoding="utf-8")
        write_tracked_files(params, evaluations, adapters, directory)
        tables, answers = tables_and_answers(context)
        tables |= {"seeds": seed_tables(seeds, params, varied), "ablation": ablation_tables(ablations, params)}
        figures = _draw(context, ablations, demo, notes, directory / "figures")
        sections = []
        for name, (title, explanation) in SECTIONS.items():
            traced = [_traced(table, evaluations, name) for table in tables[name]]
            shown = [dataclasses.replace(table, note=notes[name] + table.note) for table in traced]
            # Some sections are there only where somebody asked for them.
            if shown or name in params.axes or name not in ("seeds", "laws", *QUESTION_AXES):
                sections.append(Section(name, title, explanation, shown, figures.get(name, [])))
        shown = [table for section in sections for table in section.tables]
        for table in shown:
            write_table_texts(table, directory / "tables")
        document = latex_document(table.name for table in shown)
        (directory / "tables" / "all_tables.tex").write_text(document, encoding="utf-8")
        page = report_page(context, sections, answers, {**by_seed, **ablations.trained}, list(seeds), varied[0])
        (directory / "index.html").write_text(page, encoding="utf-8")
    # The metrics alone: provenance files hold times, by which the same report would be another run.
    read = [Path(path).with_name("metrics.json") for path in dict.fromkeys((*by_seed, *ablations.trained))]
    _announce(context, shown, ablations.missing)
    print(f"report: {output / 'index.html'}")
    return Report(output, evaluations, shown, read)


def _announce(context: ReportContext, tables: Sequence[Table], missing_sweeps: Sequence[str]) -> None:
    """Print the tables, and what is missing."""
    params, evaluations = context.params, context.evaluations
    for table in tables:
        print(to_markdown(table))
    for key, reason in evaluations.failed.items():
        print(f"FAILED: {key.axis} of {key.model} {key.condition}: {reason}")
    if missing := missing_evaluations(context):
        print(f"missing evaluations: {'; '.join(missing)}")
    nothing = [axis for axis in params.possible_axes if axis not in evaluations.axes]
    for title, axes in (
        ("switched off (axes)", [axis for axis in nothing if axis not in params.axes]),
        ("axes without any evaluation", [axis for axis in nothing if axis in params.axes]),
    ):
        if axes:
            print(f"{title}: {', '.join(axes)}")
    if missing_sweeps:
        print(f"ablations not run: {'; '.join(missing_sweeps)}; `make ablations` runs them at the demo's scale")


def missing_evaluations(context: ReportContext) -> list[str]:
    """Evaluations of axes that have any which do not exist and did not fail, as "model condition (axis, axis)"."""
    known = context.evaluations.existing | context.evaluations.failed.keys()
    enabled, absent = enabled_baselines(context.params.generate), {}
    for axis in (axis for axis in REPORTS if axis in context.evaluations.axes):
        # An axis of divergence from base has no evaluation of base.
        with_base = any(key.axis == axis and key.condition == BASE for key in known)
        conditions = context.conditions if with_base else context.methods
        for model in context.names:
            for condition in (*conditions, *(name for name in AXES[axis].baselines if name in enabled)):
                if EvaluationKey(axis, model, condition) not in known:
                    absent.setdefault(f"{model} {condition}", []).append(axis)
    return [f"{name} ({', '.join(sorted(axes))})" for name, axes in sorted(absent.items())]
