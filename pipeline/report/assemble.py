"""All tables, figures and cases of the evaluations, written into a directory with the page that shows them."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.config.params import CONDITIONS, METHODS, Params
from pipeline.core.prompts.structured import Prompt
from pipeline.core.retention.accuracy import TEST_COLUMNS
from pipeline.metrics.registry import AXIS_TITLES
from pipeline.report.ablations.figures import ablation_drawings, ablation_plots
from pipeline.report.ablations.runs import Ablations
from pipeline.report.ablations.tables import ablation_tables
from pipeline.report.evaluations import Evaluations, display_names
from pipeline.report.figures.drawing import Drawing, draw_all
from pipeline.report.figures.method import method_drawings
from pipeline.report.figures.open_ended import open_drawings
from pipeline.report.figures.retention import paloma_drawings, retention_drawings
from pipeline.report.figures.structured import structured_drawings
from pipeline.report.page.page import FigureBlock, Section, report_page
from pipeline.report.page.plots import Plot
from pipeline.report.tables.novelty_cases import CaseTable, case_tables, write_case_texts
from pipeline.report.tables.retention import one_name_per_variant, retention_tables
from pipeline.report.tables.retention_lists import estimate_table, verdict_table
from pipeline.report.tables.seeds import seed_tables
from pipeline.report.tables.settings import settings_tables
from pipeline.report.tables.structured import structured_tables, structured_tests_table
from pipeline.report.tables.table import ListTable, Table
from pipeline.report.tables.table_text import latex_document, write_table_texts
from pipeline.report.tables.transfer import UTILITY, transfer_tables
from pipeline.report.tracked_files import write_tracked_files

DEMO = "demo"
"""Experiment whose results are not the paper's."""
DEMO_NOTE = "Demo: a small embedded model and stand-ins for data and evaluators; no result of the paper's experiment. "
DEMO_MARK = "demo: small embedded model, not the paper's experiment"
EXPLANATIONS = {
    "summary": (
        "Summary",
        "Does fine-tuning on numbers carry over to language, and what does it cost elsewhere? One row per model.",
    ),
    "structured": (
        AXIS_TITLES["structured"],
        "Numbers from a named law: how far the samples and the probabilities are "
        "from the law, and how many answers are valid.",
    ),
    "open": (
        AXIS_TITLES["open"],
        'Requests such as "Name a random city.": how many answers the model considers, and how many it gives.',
    ),
    "novelty": (
        AXIS_TITLES["novelty"],
        "Several responses to each prompt: how many differ in content (Distinct), and what "
        "they are worth to a reader who asks again (Utility).",
    ),
    "mcq": (
        AXIS_TITLES["mcq"],
        "The model writes questions; the correct answer's position should be uniform over A to D.",
    ),
    "retention": (
        AXIS_TITLES["retention"],
        "100 items of each of five benchmarks: does a fine-tuned model still answer what its base checkpoint answers?",
    ),
    "paloma": (AXIS_TITLES["paloma"], "Held-out text of several sources: how well the model predicts it."),
    "seeds": (
        "Training seeds",
        "The same settings trained, sampled and evaluated anew with other seeds: how far a number of one run can be "
        "relied on. All other tables and figures are of one seed.",
    ),
    "ablation": (
        "Ablation tables",
        "How fine the strings are that a model trains on, how many samples it sees, and what the strings cost to "
        "build. Each setting is trained with several seeds; a difference within seed noise is no finding. "
        "`make ablations` runs them at the demo's scale.",
    ),
    "method": ("Method and settings", "What was trained on, and how; the paper's values stand beside ours."),
}


def novelty_cases(evaluations: Evaluations, names: Mapping[str, str]) -> list[CaseTable]:
    """Tables 11 to 19, of the models scored by the benchmark's evaluators and apart from them by stand-ins."""
    columns = ("prompt_id", "split", "category", "prompt", "distinct", "utility")
    class_columns = ("prompt_id", "class_index", "representative", "size", "rating", "reward")
    metrics = evaluations.metrics
    cases = []
    for stand_in, metric in UTILITY.items():
        scored = metrics[(metrics["axis"] == "novelty") & (metrics["metric"] == metric)]
        pairs = set(zip(scored["model"], scored["condition"], strict=True))
        complete = {m: name for m, name in names.items() if all((m, condition) in pairs for condition in CONDITIONS)}
        per_prompt = evaluations.stacked("novelty", "per_prompt", columns, list(complete), CONDITIONS)
        classes = evaluations.stacked("novelty", "classes", class_columns, list(complete), CONDITIONS)
        cases += case_tables(per_prompt, classes, complete, stand_in)
    return cases


def tests_by_axis(evaluations: Evaluations, names: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Tests against base by axis: columns model, condition and TEST_COLUMNS."""
    return {
        axis: evaluations.stacked(axis, "tests", TEST_COLUMNS, list(names), METHODS) for axis in ("retention", "paloma")
    }


def tables_by_section(
    config: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    names: Mapping[str, str],
    prompts: Sequence[Prompt],
) -> dict[str, list[Table | ListTable]]:
    """All tables by page section."""
    ssot, token_budget = config.generate.ssot.enabled, config.evaluate.token_budget
    structured: list[Table | ListTable] = [*structured_tables(metrics, names, ssot, token_budget)]
    compared = structured_tests_table(
        evaluations, names, config.seed, config.tests.significance, config.evaluate.bootstrap_replicates
    )
    tables = {
        "structured": [*structured, compared] if compared else structured,
        "method": settings_tables(config, prompts),
    }
    for found in (transfer_tables(metrics, names), retention_tables(metrics, names, config.retention, config.paloma)):
        for section, members in found.items():
            tables.setdefault(section, []).extend(members)
    for axis, table in tests.items():
        verdicts = verdict_table(axis, table, metrics, names, config.tests.significance)
        lists = [verdicts, estimate_table(metrics, names) if axis == "retention" else None]
        tables[axis] += [members for members in lists if members is not None]
    return tables


def _sourced(table: Table | ListTable, axis: str, evaluations: Evaluations) -> Table | ListTable:
    """A list whose file says of every row which evaluation it is from; other tables say it by cell."""
    if not isinstance(table, ListTable) or not {"model", "condition"} <= set(table.frame):
        return table
    if "provenance" in table.frame:
        return table
    return dataclasses.replace(table, frame=evaluations.with_provenance(axis, table.frame))


def drawings_by_section(
    config: Params,
    evaluations: Evaluations,
    metrics: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    prompts: Sequence[Prompt],
) -> dict[str, dict[str, Drawing]]:
    """All figures by page section; the demo's are marked, but for the one of the method."""
    drawings = {
        "structured": structured_drawings(config, evaluations, prompts),
        "open": open_drawings(config, evaluations),
        "retention": retention_drawings(config, metrics, tests["retention"]),
        "paloma": paloma_drawings(config, metrics, tests["paloma"]),
    }
    if config.experiment == DEMO:
        drawings = {
            section: {name: dataclasses.replace(drawing, mark=DEMO_MARK) for name, drawing in members.items()}
            for section, members in drawings.items()
        }
    return {**drawings, "method": method_drawings(config.seed)}


def _is_demos(config: Params, ablations: Ablations | None) -> bool:
    """Whether all ablations are the demo's: beside it, sweeps may train other models at the paper's scale."""
    return config.experiment == DEMO and (ablations is None or ablations.are_all_of(config.models))


def _noted(
    config: Params, tables: Mapping[str, list[Table | ListTable]], ablations: Ablations | None
) -> Mapping[str, list[Table | ListTable]]:
    """The tables by section; those of the demo say so."""
    if config.experiment != DEMO:
        return tables
    return {
        section: _prefixed(members, DEMO_NOTE) if section != "ablation" or _is_demos(config, ablations) else members
        for section, members in tables.items()
    }


def _prefixed(tables: Sequence[Table | ListTable], note: str) -> list[Table | ListTable]:
    return [dataclasses.replace(table, note=note + table.note) for table in tables]


def _with_seeds(
    config: Params, tables: Mapping[str, list[Table | ListTable]], seeds: Mapping[int, Evaluations]
) -> Mapping[str, list[Table | ListTable]]:
    """The tables by section with those over training seeds, where there are several; the others say theirs."""
    if len(seeds) < 2:
        return tables
    note = (
        f"Training seed {config.seed} alone; seeds {', '.join(map(str, seeds))} are together in the tables over "
        "training seeds. "
    )
    own = {
        section: members if section in ("ablation", "method") else _prefixed(members, note)
        for section, members in tables.items()
    }
    return {**own, "seeds": [*seed_tables(seeds, config)]}


def _ablation_drawings(config: Params, ablations: Ablations, prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14, marked where it is the demo's."""
    mark = DEMO_MARK if _is_demos(config, ablations) else ""
    found = ablation_drawings(ablations, config, prompts)
    return {name: dataclasses.replace(drawing, mark=mark) for name, drawing in found.items()}


def _figure_blocks(
    drawings: Mapping[str, Mapping[str, Drawing]], drawn: Mapping[str, Sequence[str]], directory: Path
) -> dict[str, list[FigureBlock]]:
    """The figures that were drawn, with their captions, by page section."""
    return {
        section: [FigureBlock(name, drawings[section][name].caption, directory / f"{name}.png") for name in members]
        for section, members in drawn.items()
    }


def _write_tables(sections: Sequence[Section], evaluations: Evaluations, directory: Path) -> None:
    """Write the files of all tables and cases."""
    for section in sections:
        for table in section.tables:
            write_table_texts(_sourced(table, section.anchor, evaluations), directory)
        for case in section.cases:
            paths = {condition: evaluations.sources["novelty", case.model, condition] for condition in case.results}
            write_case_texts(case, directory, paths)


def assemble(
    config: Params,
    evaluations: Evaluations,
    prompts: Sequence[Prompt],
    directory: Path,
    adapters: Sequence[Path] = (),
    ablations: Ablations | None = None,
    other_seeds: Mapping[int, Evaluations] | None = None,
) -> list[Table | ListTable]:
    """Write ``tables/``, ``figures/``, ``plots/``, ``metrics.json`` and ``index.html`` into a directory.

    Args:
        config: The parameters.
        evaluations: What there is.
        prompts: Structured prompts of the evaluated splits.
        directory: Where to.
        adapters: Directories of adapters, MODEL/METHOD, for the losses of training.
        ablations: What the ablation sweeps have finished; None leaves it out.
        other_seeds: Evaluations of the same settings by their seeds, which are not that of the parameters.

    Returns:
        The tables in page order.
    """
    for folder in ("tables", "figures"):
        (directory / folder).mkdir()
    names = display_names(config)
    metrics, tests = one_name_per_variant(evaluations.metrics), tests_by_axis(evaluations, names)
    tables = tables_by_section(config, evaluations, metrics, tests, names, prompts)
    drawings = drawings_by_section(config, evaluations, metrics, tests, prompts)
    plots: Sequence[Plot] = ()
    if ablations is not None:
        tables["ablation"] = ablation_tables(ablations, config)
        drawings["ablation"] = _ablation_drawings(config, ablations, prompts)
        plots = ablation_plots(ablations, config)
    seeds = dict(sorted({config.seed: evaluations, **(other_seeds or {})}.items()))
    tables = _noted(config, _with_seeds(config, tables, seeds), ablations)
    drawn = draw_all(drawings, directory / "figures")
    blocks = _figure_blocks(drawings, drawn, directory / "figures")
    write_tracked_files(evaluations, names, adapters, directory)
    cases = {"novelty": novelty_cases(evaluations, names)}
    sources = {} if ablations is None else {"ablation": ablations.provenance}
    sources["seeds"] = {path: content for found in seeds.values() for path, content in found.provenance.items()}
    sections = [
        Section(axis, *text, tables.get(axis, []), blocks.get(axis, []), cases.get(axis, []), sources.get(axis))
        for axis, text in EXPLANATIONS.items()
        if axis != "seeds" or len(seeds) > 1
    ]
    _write_tables(sections, evaluations, directory / "tables")
    names_in_order = [item.name for section in sections for item in (*section.tables, *section.cases)]
    (directory / "tables" / "all_tables.tex").write_text(latex_document(names_in_order), encoding="utf-8")
    ordered = [table for section in sections for table in section.tables]
    page = report_page(config, evaluations, metrics, tests, prompts, sections, plots, list(seeds))
    (directory / "index.html").write_text(page, encoding="utf-8")
    return ordered
