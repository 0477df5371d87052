"""One report: metrics.csv, metrics.json, tables, figures, plots and the page, from whatever evaluations exist."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.artifacts.atomic import atomic_entries
from pipeline.axes import AXES, axis_modules
from pipeline.config.conditions import baselines_on
from pipeline.config.evaluation import PEOPLE_AXES
from pipeline.config.params import BASE, Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.report.ablations import Ablations, read_ablations
from pipeline.report.axis_report import AxisReport
from pipeline.report.claims.table import claims_table
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
from pipeline.report.page.page import FigureBlock, Section, report_page
from pipeline.report.result import Result, headline, make_result, screen
from pipeline.report.retention import retention_summary
from pipeline.report.seeds import seed_tables
from pipeline.report.settings import settings_tables
from pipeline.report.table import Column, Table, TableSpec, specified
from pipeline.report.table_text import latex_document, write_table_texts
from pipeline.report.tracked_files import write_tracked_files

SCREEN, FAILED = "result.txt", "FAILED"
DEMO = "demo"  # experiment whose results are not the paper's
DEMO_NOTE = "Demo: a small embedded model and stand-ins for data and evaluators; no result of the paper's experiment. "
SYNTHETIC_NOTE = "Nobody was asked these questions: the counts of people's answers are synthetic. "
REPORTS: dict[str, AxisReport] = {axis: module.REPORT for axis, module in axis_modules("report").items()}
"""What each axis shows."""
SECTIONS = {
    "result": ("Result", ""),
    "summary": (
        "Claims",
        "What the paper claims, and what these models show; does calibration carry over to language, and what is lost?",
    ),
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


GENERATIVE_SUMMARY = TableSpec(
    "table1",
    "Table 1. Diversity and balance of what models generate beyond numbers",
    (
        *(Column("top_p_support_size"), Column("top_p_support_size", "change")),
        *(Column("unique_fraction"), Column("unique_fraction", "change")),
        *(Column("mcq_total_variation"), Column("mcq_total_variation", "change")),
        Column("mcq_total_variation", "floor", "Uniform sampler"),
        *(Column("utility", title="NoveltyBench utility"), Column("utility", "change")),
        Column("utility_stand_in", title="NoveltyBench utility (stand-in)"),
    ),
    "Support size: first-step tokens, most probable first, that hold 90% of the probability, mean over prompts. Unique "
    "output rate: distinct answers over all answers. TV: distance of the correct answer's position from uniform over "
    "parseable questions. NoveltyBench utility: mean over the prompts of both splits; a stand-in's is not comparable "
    "with the paper's.",
)


@dataclass(frozen=True)
class Report:
    """A report; ``sources`` are the ``metrics.json`` of all evaluations, those of other seeds and ablations, too."""

    evaluations: Evaluations
    tables: list[Table]
    sources: list[Path]
    headline: dict[str, float]
    """Figures of the first screen by MODEL/CONDITION/SPLIT/METRIC."""


def make_tables(context: ReportContext, result: Result, seeds: Sequence[Evaluations]) -> dict[str, list[Table]]:
    """By section, all tables but those over seeds and of ablations."""
    summary = [
        claims_table({model: seeds for model in context.names}, context.params.seed),
        specified(GENERATIVE_SUMMARY, context, context.conditions),
        retention_summary(context),
    ]
    return {
        "result": [] if result.table is None else [result.table],
        "summary": [table for table in summary if table is not None],
        **{axis: report.make_tables(context) for axis, report in REPORTS.items()},
        "method": settings_tables(context.params, context.prompts),
    }


def _notes(params: Params, demo: set[str], seeds: Sequence[int], varied: str) -> dict[str, str]:
    """What is said before the note of every table of a section."""
    # The page's head says so for the result.
    notes = {name: DEMO_NOTE if name in demo - {"result"} else "" for name in SECTIONS}
    if len(seeds) > 1:
        title = SEED_TITLES[varied]
        for name in set(SECTIONS) - {"seeds", "ablation", "method"}:
            notes[name] += (
                f"{title} {getattr(params, varied)} alone; seeds {', '.join(map(str, seeds))} are together in the "
                f"tables over {title.lower()}s. "
            )
    questions = params.prompts.questions
    for name in PEOPLE_AXES if questions is not None and questions.synthetic_people else ():
        notes[name] += SYNTHETIC_NOTE
    return notes


def _shown(table: Table, evaluations: Evaluations, axis: str, note: str) -> Table:
    """The table with a note before its own; its file names the evaluation behind every row."""
    frame = table.frame
    if {"model", "condition"} <= set(frame) and "provenance" not in frame:
        frame = evaluations.with_provenance(axis, frame)
    return dataclasses.replace(table, frame=frame, note=note + table.note)


def _draw(
    context: ReportContext, result: Result, ablations: Ablations, notes: Mapping[str, str], directory: Path
) -> dict[str, list[FigureBlock]]:
    """Draw the figures that there is something to show in; captions say what the notes of their section say."""
    drawings = {"result": {"result": result.drawing}}
    drawings |= {axis: report.drawings(context) for axis, report in REPORTS.items() if report.drawings}
    drawings |= {"ablation": ablations.drawings, "method": method_drawings(context.params.seed)}
    return {
        section: [
            FigureBlock(name, notes[section] + drawings[section][name].caption, directory / f"{name}.png")
            for name in names
        ]
        for section, names in draw_all(drawings, directory).items()
    }


def write_report(
    params: Params,
    evals: Sequence[Path],
    prompts: Sequence[Path],
    output: Path,
    adapters: Sequence[Path] = (),
    *,
    sweeps: Path = Path("sweeps"),
    other_seeds: Mapping[int, Evaluations] | None = None,
    varied: Sequence[str] = SEEDS,
) -> Report:
    """Write a report into ``output``, and print its result, which is also ``tables/result.txt``.

    ``other_seeds`` are evaluations under other seeds; of the keys ``varied`` that differ the first tells seeds apart.
    """
    evaluations = read_evaluations(*evals)
    seeds = dict(sorted({getattr(params, varied[0]): evaluations, **(other_seeds or {})}.items()))
    prompts = read_distinct_prompts(prompts)
    ablations = read_ablations(sweeps, Path("data/published/table26.csv"), params, prompts)
    context = ReportContext(params, evaluations, prompts, prompt_format(seeds.values()))
    provenance = {path: content for read in seeds.values() for path, content in read.provenance.items()}
    provenance |= ablations.sources
    demo = set(SECTIONS) if params.experiment == DEMO else set()
    if not ablations.models <= params.models.keys():
        # Sweeps may train other models at the paper's scale.
        demo -= {"ablation"}
    notes = _notes(params, demo, list(seeds), varied[0])
    result = make_result(context)
    numbers = headline(result)
    with atomic_entries(output) as directory:
        for folder in ("tables", "figures"):
            (directory / folder).mkdir()
        evaluations.metrics[list(METRIC_COLUMNS)].to_csv(directory / "metrics.csv", index=False, encoding="utf-8")
        write_tracked_files(params, numbers, adapters, directory)
        tables = make_tables(context, result, list(seeds.values()))
        tables |= {"seeds": seed_tables(seeds, params, varied), "ablation": ablations.tables}
        figures = _draw(context, result, ablations, notes, directory / "figures")
        sections = []
        for name, (title, explanation) in SECTIONS.items():
            shown = [_shown(table, evaluations, name, notes[name]) for table in tables[name]]
            # What nobody asked for is not there.
            if shown or name in (*params.axes, "result", "summary", "ablation", "method"):
                sections.append(Section(name, title, explanation, shown, figures.get(name, [])))
        shown = [table for section in sections for table in section.tables]
        for table in shown:
            write_table_texts(table, directory / "tables")
        document = latex_document(table.name for table in shown)
        (directory / "tables" / "all_tables.tex").write_text(document, encoding="utf-8")
        missing = missing_evaluations(context, ablations.missing)
        page = report_page(context, sections, result, missing, provenance, list(seeds), varied[0])
        (directory / "index.html").write_text(page, encoding="utf-8")
        failed = [sentence for sentence in missing if sentence.startswith(FAILED)]
        text = screen(result, [*failed, f"Page: {output / 'index.html'}"])
        (directory / "tables" / SCREEN).write_text(text, encoding="utf-8")
    print(text, end="")
    # The metrics alone: provenance files hold times, by which the same report would be another run.
    sources = [Path(path).with_name("metrics.json") for path in provenance]
    return Report(evaluations, shown, sources, numbers)


def missing_evaluations(context: ReportContext, sweeps: Sequence[str]) -> list[str]:
    """What failed, is missing or switched off, in a sentence each; ``sweeps`` are the ablations without a run."""
    params, evaluations = context.params, context.evaluations
    known = evaluations.sources.keys() | evaluations.failed.keys()
    absent: dict[str, list[str]] = {}
    for axis in (axis for axis in REPORTS if axis in evaluations.axes):
        # An axis of divergence from base has no evaluation of base.
        with_base = any(key.axis == axis and key.condition == BASE for key in known)
        conditions = context.conditions if with_base else context.methods
        for model in context.names:
            for condition in (*conditions, *baselines_on(params, axis)):
                if EvaluationKey(axis, model, condition) not in known:
                    absent.setdefault(f"{model} {condition}", []).append(axis)
    nothing = [axis for axis in params.possible_axes if axis not in evaluations.axes]
    listed = {
        "missing evaluations": [f"{name} ({', '.join(sorted(axes))})" for name, axes in sorted(absent.items())],
        "switched off (axes)": [axis for axis in nothing if axis not in params.axes],
        "axes without any evaluation": [axis for axis in nothing if axis in params.axes],
        "ablations not run (`make ablations` runs them at the demo's scale)": sweeps,
    }
    failed = [f"{FAILED}: {key.axis} of {key.model} {key.condition}: {why}" for key, why in evaluations.failed.items()]
    return [*failed, *(f"{what}: {', '.join(names)}" for what, names in listed.items() if names)]
