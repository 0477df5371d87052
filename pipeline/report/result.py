"""What an experiment shows, on one screen: the effect in a sentence, six laws before and after, the headline table, and
what is kept and lost."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from pipeline.axes.registry import METRICS
from pipeline.axes.structured.figures import overlay_prompts, sample_overlays
from pipeline.config.params import BASE
from pipeline.core.laws.cells import line_of, line_shares
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.condition_tests import TESTED
from pipeline.report.evaluations import ReportContext, rows_of
from pipeline.report.figures.drawing import Drawing, law_title
from pipeline.report.table import Column, Table, TableSpec, specified

W1 = TESTED[0]
EFFECTS = (
    (
        "distance",
        "structured",
        W1,
        {"ood": "families that it was never trained on", "unseen": "parameters that it has not seen"},
    ),
    (
        "total variation",
        "laws",
        "law_exact_total_variation",
        {"held_out_template": "wordings that it was never trained on"},
    ),
)
"""Word for the metric, axis, metric, and words for its splits; the first that was evaluated is told of."""
HEADLINE = TableSpec(
    "result",
    "Before and after",
    (
        Column(W1, title="W1, held-out families", split="ood"),
        Column(W1, title="W1, unseen parameters", split="unseen"),
        Column(W1, "floor", "Perfect sampler", "ood"),
        Column("valid_rate", title="Valid numbers", split="ood", axis="structured"),
        Column("mcq_parse_rate", title="Letters to questions"),
        Column("law_exact_total_variation", title="Own laws, TV", split="held_out_template"),
        Column("law_valid_rate", title="Own laws, valid", split="held_out_template"),
        Column("bits_per_byte", title="Bits per byte"),
    ),
    "W1: distance of the answers from the requested distribution on the scale of its probabilities, 0 to 1, invalid "
    "answers counted as 1; median over families. Valid: of answers to held-out families. Own laws: held-out wordings.",
)
NUM_LAWS = 6
WIDTH = 110


@dataclass(frozen=True)
class Result:
    """What an experiment shows; ``table`` is None where nothing of it was evaluated."""

    effect: str
    kept: str
    table: Table | None
    histograms: Sequence[tuple[str, dict[str, str]]]
    """Of each law its title, and what was asked and the answers of conditions, a histogram in a line each."""
    drawing: Drawing


def by_condition(context: ReportContext, axis: str, split: str, metric: str) -> pd.DataFrame:
    """A metric of the conditions that have it, medians over models: columns of metrics.csv by condition."""
    rows = rows_of(context.metrics, axis=axis, split=split, family="", metric=metric)
    rows = rows[rows["model"].isin(context.names) & rows["condition"].isin(context.conditions)]
    numbers = ["value", "floor", "change", "change_low", "change_high"]
    order = [name for name in context.conditions if name in set(rows["condition"])]
    return rows.groupby("condition")[numbers].median().loc[order]


def effect_sentence(context: ReportContext, method: str) -> str:
    """How far a method moves the distance from what was asked, with the interval of the change of one model."""
    for word, axis, metric, places in EFFECTS:
        found = {split: by_condition(context, axis, split, metric) for split in places}
        both = {s: rows for s, rows in found.items() if rows["value"].reindex([BASE, method]).notna().all()}
        if both:
            return _effect(context, method, word, {places[split]: rows for split, rows in both.items()})
    return "Calibration (numbers, laws) was not evaluated both before and after fine-tuning."


def _effect(context: ReportContext, method: str, word: str, by_place: Mapping[str, pd.DataFrame]) -> str:
    one_model, parts, verbs = len(context.names) == 1, [], set()
    for place, rows in by_place.items():
        base, own = rows.loc[BASE], rows.loc[method]
        # Records of earlier versions have no interval of the change.
        known = one_model and np.isfinite(own.change_low)
        interval = f" (95% of the change {own.change_low:+.3f} to {own.change_high:+.3f})" if known else ""
        parts.append(f"from {base['value']:.3f} to {own['value']:.3f} on {place}{interval}")
        unclear = one_model and own.change_low <= 0 <= own.change_high
        verbs.add("did not clearly change" if unclear else "cut" if own["value"] < base["value"] else "raised")
    floor = next(iter(by_place.values()))["floor"].median()
    models = "" if one_model else f" (medians over {len(context.names)} models)"
    perfect = f"; a perfect sampler scores {floor:.3f}" if np.isfinite(floor) else ""
    return (
        f"Fine-tuning ({method}) {verbs.pop() if len(verbs) == 1 else 'moved'} the {word} between the "
        f"model's answers and the requested distributions {', and '.join(parts)}{models}{perfect}."
    )


def kept_sentence(context: ReportContext) -> str:
    """What fine-tuning does to questions, text and tasks; empty where none was evaluated."""
    sentences = []
    parsed = by_condition(context, "mcq", "mcq", "mcq_parse_rate")["value"]
    if len(parsed):
        shares = ", ".join(f"{name} {value:.0%}" for name, value in parsed.items())
        sentences.append(f"Multiple-choice questions still get a letter: {shares}.")
    changes = {"Text, bits per byte": ("paloma", "bits_per_byte"), "Tasks, accuracy": ("retention", "accuracy")}
    for title, (axis, metric) in changes.items():
        found = by_condition(context, axis, "all", metric)["change"].drop(BASE, errors="ignore").dropna()
        if len(found):
            digits = METRICS[metric].decimals
            listed = ", ".join(f"{name} {value:+.{digits}f}" for name, value in found.items())
            sentences.append(f"{title}, change from base: {listed}.")
    return " ".join(sentences)


def _lines(prompt: Prompt, samples: dict[str, np.ndarray]) -> dict[str, str]:
    shares = {name: line_shares(prompt.law, values) for name, values in samples.items()}
    target = next(iter(shares.values()))[0]
    return {"asked": line_of(target, target)} | {name: line_of(own, target) for name, (_, own) in shares.items()}


def make_result(context: ReportContext) -> Result:
    """The result of the experiment's last method, beside all others in the table."""
    method = context.methods[-1] if context.methods else BASE
    shown = list(dict.fromkeys((BASE, method)))
    prompts = overlay_prompts(context.prompts)[:NUM_LAWS]
    model, name = next(iter(context.names.items()))
    samples = context.evaluations.samples([model], shown)
    of_model = samples.get(model, {})
    histograms = [
        (law_title(prompt), _lines(prompt, {c: of_model[c, prompt.prompt_id] for c in shown}))
        for prompt in prompts
        if all((c, prompt.prompt_id) in of_model for c in shown)
    ]
    drawing = Drawing(
        sample_overlays,
        (prompts, samples, {model: name for model in samples}, shown),
        f"What was asked (black), answers before ({BASE}) and after ({method}): families that were not trained on.",
    )
    # With many models a screen has room for two rows of each.
    table = specified(HEADLINE, context, context.conditions if len(context.names) == 1 else shown)
    if table is not None and len(context.names) == 1:
        table = dataclasses.replace(table, header=table.header[1:], rows=[row[1:] for row in table.rows], labels=1)
    return Result(effect_sentence(context, method), kept_sentence(context), table, histograms, drawing)


def headline(result: Result) -> dict[str, float]:
    """The figures of the table by MODEL/CONDITION/SPLIT/METRIC, as far as they are defined."""
    rows = [] if result.table is None else result.table.frame.dropna(subset=["value"]).itertuples()
    return {f"{row.model}/{row.condition}/{row.split}/{row.metric}": float(row.value) for row in rows}


def _law(title: str, lines: dict[str, str]) -> RenderableType:
    grid = Grid.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(no_wrap=True, overflow="crop")
    for row in lines.items():
        grid.add_row(*row)
    return Group(Text(title, overflow="ellipsis", no_wrap=True), grid)


def screen(result: Result, commands: Sequence[str]) -> str:
    """The result as plain text for a terminal, of at most 40 lines with one model."""
    console = Console(width=WIDTH, highlight=False, markup=False, color_system=None, force_terminal=False)
    parts: list[RenderableType] = [result.effect, ""]
    if result.table is not None:
        # Intervals stand below the numbers of one model; those of many are in the tables.
        grid, labels = Grid(box=None, pad_edge=False), result.table.labels
        for place, title in enumerate(result.table.header):
            shown = title if place < labels else title.replace(" ", "\n", 1)
            grid.add_column(shown, justify="left" if place < labels else "right", no_wrap=True)
        for row in result.table.cells:
            grid.add_row(*(f"{cell.text}\n{cell.detail}" if cell.detail and labels == 1 else cell.text for cell in row))
        parts += [grid, ""]
    if result.histograms:
        laws = Grid.grid(padding=(0, 2))
        blocks = [_law(title, lines) for title, lines in result.histograms]
        for start in range(0, len(blocks), 3):
            laws.add_row(*blocks[start : start + 3])
        parts += [laws, ""]
    parts += [result.kept, ""] if result.kept else []
    with console.capture() as captured:
        console.print(*parts, *commands, sep="\n")
    return captured.get()
