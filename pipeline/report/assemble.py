"""All tables and figures of the evaluations, written into a directory with the page that shows them."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pipeline.axes import AXES, axis_modules
from pipeline.axes.structured.tables import TESTS_TABLE as STRUCTURED_TESTS
from pipeline.config.evaluation import PEOPLE_AXES, QUESTION_AXES
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.core.prompts.structured import Prompt
from pipeline.report.ablations.figures import ablation_drawings
from pipeline.report.ablations.runs import Ablations
from pipeline.report.ablations.tables import ablation_tables
from pipeline.report.across_axes.frontier import chosen_methods, frontier_table
from pipeline.report.across_axes.frontier_costs import equal_calibration, equal_calibration_table
from pipeline.report.across_axes.frontier_figures import frontier_drawings
from pipeline.report.across_axes.model_tests import model_comparisons, model_tests_table
from pipeline.report.across_axes.seeds import seed_tables
from pipeline.report.across_axes.transfer import generative_summary
from pipeline.report.across_axes.transfer_tests import transfer_comparisons, transfer_tests_table
from pipeline.report.axis_table import AxisReport
from pipeline.report.context import ReportContext
from pipeline.report.evaluations import Evaluations, prompt_format
from pipeline.report.figures.drawing import Drawing, draw_all
from pipeline.report.figures.method import method_drawings
from pipeline.report.page.page import SYNTHETIC_NOTE, FigureBlock, Section, report_page
from pipeline.report.tables.retention import difference_table, one_name_per_variant, retention_summary
from pipeline.report.tables.settings import settings_tables
from pipeline.report.tables.table import ListTable, Table, bold_by_tests, verdicts_of, with_failures
from pipeline.report.tables.table_text import latex_document, write_table_texts
from pipeline.report.tracked_files import write_tracked_files

DEMO = "demo"
"""Experiment whose results are not the paper's."""
DEMO_NOTE = "Demo: a small embedded model and stand-ins for data and evaluators; no result of the paper's experiment. "
DEMO_MARK = "demo: small embedded model, not the paper's experiment"
REPORTS: dict[str, AxisReport] = {axis: module.REPORT for axis, module in axis_modules("report").items()}
"""What each axis shows."""
TITLES = {
    "summary": "Summary",
    **{name: axis.title for name, axis in AXES.items()},
    "seeds": "Training seeds",
    "ablation": "Ablation tables",
    "method": "Method and settings",
}
"""Titles of the page's sections; those of an axis have its name."""
EXPLANATIONS = {
    "summary": "Does fine-tuning on numbers carry over to language, and what does it cost elsewhere?",
    **{axis: report.explanation for axis, report in REPORTS.items()},
    "seeds": "The same settings trained, sampled and evaluated anew with other seeds: how far a number of one run can "
    "be relied on. All other tables and figures are of one seed.",
    "ablation": "How fine the strings are that a model trains on, how many samples it sees, and what the strings cost "
    "to build. Each setting is trained with several seeds; a difference within seed noise is no finding. "
    "`make ablations` runs them at the demo's scale.",
    "method": "What was trained on, and how; the paper's values stand beside ours.",
}
"""What each section shows, in the order of the page."""
Tables = dict[str, list[Table | ListTable]]
"""Tables by section."""


def tables_by_section(context: ReportContext) -> Tables:
    """All tables but those over seeds and of ablations."""
    params, metrics, names, conditions = context.params, context.metrics, context.names, context.conditions
    significance, replicates = params.tests.significance, params.evaluate.bootstrap_replicates
    tables: Tables = {axis: report.make_tables(context) for axis, report in REPORTS.items()}
    compared = next((table.frame for table in tables["structured"] if table.name == STRUCTURED_TESTS), None)
    beyond = transfer_comparisons(
        context.evaluations, metrics, names, conditions, params.seed, params.tests, replicates
    )
    choices = chosen_methods(metrics, names, conditions, compared, params.tests.wasserstein_margin)
    summary = [
        frontier_table(metrics, names, conditions, choices),
        equal_calibration_table(equal_calibration(params, context.evaluations, metrics, names), names),
        generative_summary(metrics, names, conditions),
        transfer_tests_table(beyond, names, significance),
        retention_summary(metrics, names, conditions, params.retention.gsm8k, context.task_format),
        difference_table(metrics, names, conditions),
        model_tests_table(model_comparisons(params, context.evaluations, metrics, names), significance),
    ]
    tables |= {
        "summary": [table for table in summary if table is not None],
        "method": settings_tables(params, context.prompts),
    }
    between = verdicts_of([compared, beyond] if compared is not None else [beyond])
    return {
        section: [
            with_failures(bold_by_tests(table, between), context.evaluations.failed)
            if isinstance(table, Table)
            else table
            for table in members
        ]
        for section, members in tables.items()
    }


def drawings_by_section(context: ReportContext) -> dict[str, dict[str, Drawing]]:
    """All figures but those of ablations, by section and file name."""
    return {
        "summary": frontier_drawings(context.params, context.metrics),
        **{axis: report.drawings(context) for axis, report in REPORTS.items() if report.drawings},
        "method": method_drawings(context.params.seed),
    }


def _sections_of_demo(params: Params, ablations: Ablations) -> set[str]:
    """The sections whose results are the demo's; beside it, sweeps may train other models at the paper's scale."""
    if params.experiment != DEMO:
        return set()
    return set(TITLES) if ablations.are_all_of(params.models) else set(TITLES) - {"ablation"}


def _sections_of_synthetic_people(params: Params) -> tuple[str, ...]:
    questions = params.prompts.questions
    return PEOPLE_AXES if questions is not None and questions.synthetic_people else ()


def _prefixed(tables: Sequence[Table | ListTable], note: str) -> list[Table | ListTable]:
    return [dataclasses.replace(table, note=note + table.note) for table in tables]


def _all_tables(
    params: Params,
    tables: Tables,
    ablations: Ablations,
    seeds: Mapping[int, Evaluations],
    varied: Sequence[str],
) -> Tables:
    """The tables with those of ablations and, where there are several, over training seeds; each says what it is of."""
    tables = {**tables, "ablation": [*ablation_tables(ablations, params)]}
    tables |= {name: _prefixed(tables[name], SYNTHETIC_NOTE) for name in _sections_of_synthetic_people(params)}
    if len(seeds) > 1:
        title = SEED_TITLES[varied[0]]
        note = (
            f"{title} {getattr(params, varied[0])} alone; seeds {', '.join(map(str, seeds))} are together in the "
            f"tables over {title.lower()}s. "
        )
        of_one_seed = set(TITLES) - {"ablation", "method"}
        tables = {name: _prefixed(own, note) if name in of_one_seed else own for name, own in tables.items()}
        tables["seeds"] = seed_tables(seeds, params, varied)
    demo = _sections_of_demo(params, ablations)
    return {name: _prefixed(own, DEMO_NOTE) if name in demo else own for name, own in tables.items()}


def _draw(
    params: Params, drawings: Mapping[str, Mapping[str, Drawing]], ablations: Ablations, directory: Path
) -> dict[str, list[FigureBlock]]:
    """Draw the figures that there is something to show in; those of the demo are marked, but for the method's."""
    demo = _sections_of_demo(params, ablations) - {"method"}
    marked = {
        section: {name: dataclasses.replace(drawing, mark=DEMO_MARK) for name, drawing in own.items()}
        if section in demo
        else own
        for section, own in drawings.items()
    }
    notes = dict.fromkeys(_sections_of_synthetic_people(params), SYNTHETIC_NOTE)
    return {
        section: [
            FigureBlock(name, notes.get(section, "") + drawings[section][name].caption, directory / f"{name}.png")
            for name in names
        ]
        for section, names in draw_all(marked, directory).items()
    }


def _write_tables(sections: Sequence[Section], evaluations: Evaluations, directory: Path) -> None:
    """Write the files of all tables, and the document that shows them."""
    for section in sections:
        for table in section.tables:
            # A list's file says of every row which evaluation it is from; other tables say it by cell.
            columns = set(table.frame) if isinstance(table, ListTable) else set()
            if {"model", "condition"} <= columns and "provenance" not in columns:
                table = dataclasses.replace(table, frame=evaluations.with_provenance(section.anchor, table.frame))
            write_table_texts(table, directory)
    names_in_order = [table.name for section in sections for table in section.tables]
    (directory / "all_tables.tex").write_text(latex_document(names_in_order), encoding="utf-8")


def _sections(
    tables: Tables,
    figures: Mapping[str, list[FigureBlock]],
    sources: Mapping[str, Mapping[str, dict]],
    axes: Collection[str],
) -> list[Section]:
    """The page's sections in order; those over training seeds, of laws of one's own and of questions where there are
    such tables, or ``axes`` asks for them."""
    optional = {"seeds", "laws", *QUESTION_AXES} - set(axes)
    return [
        Section(
            name,
            TITLES[name],
            text,
            tables.get(name, []),
            figures.get(name, []),
            sources.get(name),
        )
        for name, text in EXPLANATIONS.items()
        if name not in optional or tables.get(name)
    ]


def assemble(
    params: Params,
    evaluations: Evaluations,
    prompts: Sequence[Prompt],
    directory: Path,
    adapters: Sequence[Path],
    ablations: Ablations,
    other_seeds: Mapping[int, Evaluations],
    varied: Sequence[str] = SEEDS,
) -> list[Table | ListTable]:
    """Write ``tables/``, ``figures/``, ``plots/``, ``metrics.json`` and ``index.html``; arguments as of write_report.

    Returns:
        The tables in page order.
    """
    for folder in ("tables", "figures"):
        (directory / folder).mkdir()
    metrics = one_name_per_variant(evaluations.metrics)
    seeds = dict(sorted({getattr(params, varied[0]): evaluations, **other_seeds}.items()))
    context = ReportContext(params, evaluations, metrics, prompts, prompt_format(seeds.values()))
    tables = _all_tables(params, tables_by_section(context), ablations, seeds, varied)
    drawings = drawings_by_section(context)
    drawings["ablation"] = ablation_drawings(ablations, params, prompts)
    figures = _draw(params, drawings, ablations, directory / "figures")
    write_tracked_files(params, evaluations, adapters, directory)
    by_seed = {path: content for read in seeds.values() for path, content in read.provenance.items()}
    sources = {"ablation": ablations.provenance, "seeds": by_seed}
    sections = _sections(tables, figures, sources, params.axes)
    _write_tables(sections, evaluations, directory / "tables")
    tests = {axis: context.tests(axis) for axis in ("retention", "paloma")}
    page = report_page(params, evaluations, metrics, tests, prompts, sections, seeds=list(seeds), seed_key=varied[0])
    (directory / "index.html").write_text(page, encoding="utf-8")
    return [table for section in sections for table in section.tables]
