"""All tables, figures and cases of the evaluations, written into a directory with the page that shows them."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.axes.credal.report import REPORT as CREDAL
from pipeline.axes.human.report import REPORT as HUMAN
from pipeline.axes.inv_entropy.report import REPORT as INV_ENTROPY
from pipeline.axes.registry import AXIS_TITLES
from pipeline.axes.selfreflect.report import REPORT as SELFREFLECT
from pipeline.axes.semcal.report import REPORT as SEMCAL
from pipeline.axes.uncertainty.report import REPORT as UNCERTAINTY
from pipeline.config.evaluation import PEOPLE_AXES, QUESTION_AXES
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES, SEEDS
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.paired_tests import TEST_COLUMNS
from pipeline.report.ablations.figures import ablation_drawings, ablation_plots
from pipeline.report.ablations.runs import Ablations
from pipeline.report.ablations.tables import ablation_tables
from pipeline.report.axis_table import axis_table
from pipeline.report.evaluations import Evaluations, display_names, methods_of, prompt_format
from pipeline.report.figures.drawing import Drawing, draw_all
from pipeline.report.figures.frontier import frontier_drawings
from pipeline.report.figures.laws import law_drawings
from pipeline.report.figures.method import method_drawings
from pipeline.report.figures.open_ended import open_drawings
from pipeline.report.figures.retention import paloma_drawings, retention_drawings
from pipeline.report.figures.structured import structured_drawings
from pipeline.report.page.page import SYNTHETIC_NOTE, FigureBlock, Section, report_page
from pipeline.report.tables.frontier import chosen_methods, frontier_table
from pipeline.report.tables.frontier_costs import equal_calibration, equal_calibration_table
from pipeline.report.tables.laws import law_tests_table, laws_table
from pipeline.report.tables.model_tests import model_comparisons, model_tests_table
from pipeline.report.tables.novelty_cases import CaseTable, novelty_cases, write_case_texts
from pipeline.report.tables.open_stated import open_stated_table
from pipeline.report.tables.retention import one_name_per_variant, retention_tables
from pipeline.report.tables.retention_lists import estimate_table, verdict_table
from pipeline.report.tables.seeds import seed_tables
from pipeline.report.tables.settings import settings_tables
from pipeline.report.tables.structured import structured_tables, structured_tests_table
from pipeline.report.tables.table import ListTable, Table, bold_by_tests, verdicts_of
from pipeline.report.tables.table_text import latex_document, write_table_texts
from pipeline.report.tables.transfer import transfer_tables
from pipeline.report.tables.transfer_tests import transfer_comparisons, transfer_tests_table
from pipeline.report.tracked_files import write_tracked_files

DEMO = "demo"
"""Experiment whose results are not the paper's."""
DEMO_NOTE = "Demo: a small embedded model and stand-ins for data and evaluators; no result of the paper's experiment. "
DEMO_MARK = "demo: small embedded model, not the paper's experiment"
QUESTION_REPORTS = {
    "human": HUMAN,
    "semcal": SEMCAL,
    "credal": CREDAL,
    "uncertainty": UNCERTAINTY,
    "inv_entropy": INV_ENTROPY,
    "selfreflect": SELFREFLECT,
}
"""What the axes of questions show."""
TITLES = {
    "summary": "Summary",
    **AXIS_TITLES,
    "seeds": "Training seeds",
    "ablation": "Ablation tables",
    "method": "Method and settings",
}
"""Titles of the page's sections; those of an axis have its name."""
EXPLANATIONS = {
    "summary": "Does fine-tuning on numbers carry over to language, and what does it cost elsewhere?",
    "structured": "Numbers from a named law: how far the samples and the probabilities are from the law, and how many "
    "answers are valid.",
    "open": 'Requests such as "Name a random city.": how many answers the model considers, and how many it gives.',
    "novelty": "Several responses to each prompt: how many differ in content (Distinct), and what they are worth to a "
    "reader who asks again (Utility).",
    "mcq": "The model writes questions; the correct answer's position should be uniform over A to D.",
    "retention": "100 items of each of five benchmarks: does a fine-tuned model still answer what its base checkpoint "
    "answers?",
    "paloma": "Held-out text of several sources: how well the model predicts it.",
    "anchors": "General instructions that no method is trained on: how far a fine-tuned model's replies have moved "
    "from its base checkpoint's, token by token.",
    "laws": "Laws that files describe: does the model answer as they say, also where it is asked in other words, or "
    "about values that it was not trained on?",
    **{axis: report.explanation for axis, report in QUESTION_REPORTS.items()},
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


def tests_by_axis(params: Params, evaluations: Evaluations) -> dict[str, pd.DataFrame]:
    """Tests against base by axis: columns model, condition and TEST_COLUMNS."""
    methods = methods_of(params.conditions)
    return {
        axis: evaluations.stacked(axis, "tests", TEST_COLUMNS, params.models, methods)
        for axis in ("retention", "paloma")
    }


def tables_by_section(
    params: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    prompts: Sequence[Prompt],
    task_format: str,
) -> Tables:
    """All tables but those over seeds and of ablations.

    Args:
        params: The parameters.
        evaluations: What there is.
        metrics: Its metrics with one name per variant.
        tests: ``tests_by_axis``.
        prompts: Structured prompts of the evaluated splits.
        task_format: How the tasks of retention were put to the models.
    """
    names, conditions, significance = display_names(params), params.conditions, params.tests.significance
    ssot, token_budget = params.generate.ssot.enabled, params.evaluate.token_budget
    compared = structured_tests_table(
        evaluations, names, conditions, params.seed, params.tests, params.evaluate.bootstrap_replicates
    )
    law_tests = law_tests_table(
        evaluations, names, conditions, params.seed, params.tests, params.evaluate.bootstrap_replicates
    )
    transfer = transfer_tables(metrics, names, conditions)
    kept = retention_tables(metrics, names, conditions, params.retention, params.paloma, task_format)
    verdicts = {
        axis: verdict_table(axis, table, metrics, names, methods_of(conditions), significance)
        for axis, table in tests.items()
    }
    beyond = transfer_comparisons(
        evaluations, metrics, names, conditions, params.seed, params.tests, params.evaluate.bootstrap_replicates
    )
    over_models = model_tests_table(model_comparisons(params, evaluations, metrics, names), significance)
    choices = chosen_methods(
        metrics, names, conditions, None if compared is None else compared.frame, params.tests.wasserstein_margin
    )
    tables = {
        "summary": [
            frontier_table(metrics, names, conditions, choices),
            equal_calibration_table(equal_calibration(params, evaluations, metrics, names), names),
            *transfer["summary"],
            transfer_tests_table(beyond, names, significance),
            *kept["summary"],
            over_models,
        ],
        "structured": [*structured_tables(metrics, names, conditions, ssot, token_budget), compared],
        "open": [*transfer["open"], open_stated_table(evaluations, names, conditions)],
        "novelty": transfer["novelty"],
        "mcq": transfer["mcq"],
        "retention": [*kept["retention"], verdicts["retention"], estimate_table(metrics, names, conditions)],
        "paloma": [*kept["paloma"], verdicts["paloma"]],
        "anchors": kept["anchors"],
        "laws": [laws_table(metrics, names, conditions), law_tests],
        **{
            axis: [axis_table(spec, metrics, names, conditions) for spec in report.tables]
            for axis, report in QUESTION_REPORTS.items()
        },
        "method": settings_tables(params, prompts),
    }
    between = verdicts_of([compared.frame, beyond] if compared is not None else [beyond])
    return {
        section: [
            bold_by_tests(table, between) if isinstance(table, Table) else table
            for table in members
            if table is not None
        ]
        for section, members in tables.items()
    }


def drawings_by_section(
    params: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    prompts: Sequence[Prompt],
) -> dict[str, dict[str, Drawing]]:
    """All figures but those of ablations, by section and file name; arguments as for ``tables_by_section``."""
    return {
        "summary": frontier_drawings(params, metrics),
        "structured": structured_drawings(params, evaluations, prompts),
        "open": open_drawings(params, evaluations),
        "retention": retention_drawings(params, metrics, tests["retention"]),
        "paloma": paloma_drawings(params, metrics, tests["paloma"]),
        "laws": law_drawings(params, evaluations),
        **{axis: report.drawings(params, evaluations) for axis, report in QUESTION_REPORTS.items() if report.drawings},
        "method": method_drawings(params.seed),
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
    """Draw the figures; those of the demo are marked, but for the one of the method, which is no result.

    Returns:
        The figures that there was something to draw for, by section.
    """
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


def _sourced(table: Table | ListTable, axis: str, evaluations: Evaluations) -> Table | ListTable:
    """A list whose file says of every row which evaluation it is from; other tables say it by cell."""
    if not isinstance(table, ListTable) or not {"model", "condition"} <= set(table.frame):
        return table
    if "provenance" in table.frame:
        return table
    return dataclasses.replace(table, frame=evaluations.with_provenance(axis, table.frame))


def _write_tables(sections: Sequence[Section], evaluations: Evaluations, directory: Path) -> None:
    """Write the files of all tables and cases, and the document that shows them."""
    for section in sections:
        for table in section.tables:
            write_table_texts(_sourced(table, section.anchor, evaluations), directory)
        for case in section.cases:
            paths = {condition: evaluations.sources["novelty", case.model, condition] for condition in case.results}
            write_case_texts(case, directory, paths)
    names_in_order = [item.name for section in sections for item in (*section.tables, *section.cases)]
    (directory / "all_tables.tex").write_text(latex_document(names_in_order), encoding="utf-8")


def _sections(
    tables: Tables,
    figures: Mapping[str, list[FigureBlock]],
    cases: Mapping[str, list[CaseTable]],
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
            cases.get(name, []),
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
    """Write ``tables/``, ``figures/``, ``plots/``, ``metrics.json`` and ``index.html`` into a directory.

    Args:
        params: The parameters.
        evaluations: What there is.
        prompts: Structured prompts of the evaluated splits.
        directory: Where to.
        adapters: Directories of adapters, MODEL/METHOD, for the losses of training.
        ablations: What the ablation sweeps have finished.
        other_seeds: Evaluations of the same settings by their seeds, which are not that of the parameters.
        varied: The seeds that differ between them, by their keys; the first is that of ``other_seeds``.

    Returns:
        The tables in page order.
    """
    for folder in ("tables", "figures"):
        (directory / folder).mkdir()
    metrics, tests = one_name_per_variant(evaluations.metrics), tests_by_axis(params, evaluations)
    seeds = dict(sorted({getattr(params, varied[0]): evaluations, **other_seeds}.items()))
    tables = tables_by_section(params, evaluations, metrics, tests, prompts, prompt_format(seeds.values()))
    tables = _all_tables(params, tables, ablations, seeds, varied)
    drawings = drawings_by_section(params, evaluations, metrics, tests, prompts)
    drawings["ablation"] = ablation_drawings(ablations, params, prompts)
    figures = _draw(params, drawings, ablations, directory / "figures")
    write_tracked_files(params, evaluations, adapters, directory)
    cases = {"novelty": novelty_cases(evaluations, display_names(params), params.conditions)}
    by_seed = {path: content for read in seeds.values() for path, content in read.provenance.items()}
    sources = {"ablation": ablations.provenance, "seeds": by_seed}
    sections = _sections(tables, figures, cases, sources, params.axes)
    _write_tables(sections, evaluations, directory / "tables")
    plots = ablation_plots(ablations, params)
    page = report_page(params, evaluations, metrics, tests, prompts, sections, plots, list(seeds), varied[0])
    (directory / "index.html").write_text(page, encoding="utf-8")
    return [table for section in sections for table in section.tables]
