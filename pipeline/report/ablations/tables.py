"""Tables 24 to 26: what strings cost to build, and metrics by setting over training seeds, against the best setting."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.config.params import Params
from pipeline.core.statistics.seed_noise import Comparison, Spread, compare_with_best, spread
from pipeline.record.provenance import join_sources
from pipeline.report.ablations.runs import (
    CONSTRUCTED,
    GRANULARITY,
    HARD_ABLATION,
    SOFT_GRANULARITY,
    Ablations,
    Block,
    Design,
    Published,
    PublishedFigures,
    Setting,
    block_titles,
    is_papers_run,
    metric_by_seed,
    scale_note,
)
from pipeline.report.across_axes.seeds import spread_columns, value_text, values_by_seed
from pipeline.report.tables.table import DASH, MISSING, ListTable, number_range

HEADLINE = "wasserstein_1_normalised"
KL = "logit_kl_nats"
IN_FILE = (HEADLINE, KL, "valid_rate")
"""Metrics of the tables' files."""
SPLIT_HEADINGS = {split: f"{title[0].upper()}{title[1:]}" for split, title in SHORT_SPLIT_TITLES.items()}
SOFT_CAPTION = "Table 25. Granularity of the soft-target method's strings"
HARD_CAPTION = "Table 26. Strings and sampling budget of the hard-target method"
REFERENCE = (5, 16384)
"""(decimals, most strings) of every evaluation."""


def ablation_tables(ablations: Ablations, params: Params) -> list[ListTable]:
    """Tables 24, 25 and 26, those of which there is anything to show."""
    soft, hard = ablations.soft, ablations.hard
    unrun = published_only(list(params.models), hard, ablations.published)
    tables = [
        construction_table(ablations.construction),
        ablation_table("table25", SOFT_CAPTION, SOFT_GRANULARITY, soft, params, {}),
        ablation_table("table25_kl", f"{SOFT_CAPTION}: logit KL", SOFT_GRANULARITY, soft, params, {}, KL),
        ablation_table("table26", HARD_CAPTION, HARD_ABLATION, [*hard, *unrun], params, ablations.published),
        ablation_table("table26_kl", f"{HARD_CAPTION}: logit KL", HARD_ABLATION, hard, params, {}, KL),
    ]
    return [table for table in tables if table is not None]


def construction_table(records: pd.DataFrame) -> ListTable | None:
    """Table 24; settings of the grid that were not measured say so. None where nothing was measured."""
    if records.empty:
        return None
    header = ["Tokenizer", "Decimals", "Most strings", "Prompts"]
    for title in CONSTRUCTED.values():
        header += [f"{title}: mean time (ms)", f"{title}: largest peak (MB)"]
    rows = []
    for tokenizer, members in records.groupby("tokenizer", sort=False):
        found = {(row["num_decimals"], row["max_bins"]): row for row in members.to_dict("records")}
        settings = [*GRANULARITY, *sorted((item for item in found if item not in GRANULARITY), key=str)]
        rows += [_construction_row(str(tokenizer), setting, found.get(setting)) for setting in settings]
    return ListTable(
        "table24",
        "Table 24. What output spaces and tries take to build",
        header,
        rows,
        3,
        records,
        "Time: wall clock of one prompt, mean over training prompts, on the machine that ran the sweep. Peak: the "
        "largest tracemalloc peak of any prompt, in 10^6 bytes, measured in a second construction because tracing "
        "takes time. *: the setting of every evaluation. The paper's own figures are not in its text.",
    )


def _construction_row(tokenizer: str, setting: tuple[int, int | None], row: dict[str, Any] | None) -> list[str]:
    num_decimals, max_bins = setting
    strings = "all" if pd.isna(max_bins) else f"{max_bins}{'*' if setting == REFERENCE else ''}"
    labels = [tokenizer, str(num_decimals), strings]
    if row is None:
        return [*labels, *[MISSING] * (1 + 2 * len(CONSTRUCTED))]
    cells = [str(row["prompts"])]
    for part in CONSTRUCTED:
        cells += [f"{row[f'{part}_mean_seconds'] * 1e3:.2f}", f"{row[f'{part}_peak_bytes'] / 1e6:.2f}"]
    return [*labels, *cells]


def ablation_records(
    design: Design, blocks: Sequence[Block], params: Params, published: PublishedFigures
) -> pd.DataFrame:
    """One row per block, setting, split and metric, in full precision."""
    records = []
    for block, title in zip(blocks, block_titles(blocks, params), strict=True):
        for split in SPLIT_HEADINGS:
            for metric in IN_FILE:
                records += _block_records(design, block, title, split, metric, published)
    return pd.DataFrame(records)


def _block_records(
    design: Design, block: Block, title: str, split: str, metric: str, published: PublishedFigures
) -> list[dict[str, Any]]:
    """The settings of one block, split and metric."""
    settings, spreads, tables = block.settings(design), {}, {}
    for setting in settings:
        table = metric_by_seed(block.runs.get(setting, ()), block.model, design.condition, split, metric)
        if len(table):
            tables[setting] = table
            spreads[setting] = spread([float(value) for value in table["value"]])
    compared = compare_with_best(list(spreads.values()), lower_is_better=METRICS[metric].direction == "lower")
    comparisons = dict(zip(spreads, compared, strict=True))
    comparable = metric == HEADLINE and (not block.runs or is_papers_run(block.others))
    return [
        {
            "model": block.model,
            "display_name": title,
            **dict(zip(design.factors, setting, strict=True)),
            "split": split,
            "metric": metric,
            **_numbers(spreads.get(setting), comparisons.get(setting), tables.get(setting)),
            **_published(published.get((block.model, setting, split)) if comparable else None),
            "provenance": join_sources(tables[setting]["provenance"]) if setting in tables else "",
        }
        for setting in settings
    ]


def _numbers(found: Spread | None, compared: Comparison | None, table: pd.DataFrame | None) -> dict[str, Any]:
    if found is None or compared is None or table is None:
        numbers = dict.fromkeys(("mean", "deviation", "low", "high", "difference", "margin"), math.nan)
        texts = {"verdict": "", "values": "", "floor": math.nan}
        return {"status": MISSING, "seeds": 0, "undefined": 0, **numbers, **texts}
    return {
        **spread_columns(found),
        "difference": compared.difference,
        "margin": compared.margin,
        "verdict": compared.verdict,
        "values": values_by_seed(dict(zip(table["seed"].tolist(), table["value"].tolist(), strict=True))),
        "floor": float(table["floor"].mean()),
    }


def _published(figure: Published | None) -> dict[str, Any]:
    return {
        "published": math.nan if figure is None else figure.value,
        "published_uncertain": "" if figure is None else "yes" if figure.uncertain else "no",
        "published_source": "" if figure is None else figure.source,
        "published_note": "" if figure is None else figure.note,
    }


def ablation_table(
    name: str,
    caption: str,
    design: Design,
    blocks: Sequence[Block],
    params: Params,
    published: PublishedFigures,
    metric: str = HEADLINE,
) -> ListTable | None:
    """One metric by setting; None where nothing was run or published. The file of W1 has KL and valid rate, too.

    ``published`` are figures of the paper, shown in columns of their own beside the same runs and the models of
    ``blocks`` without any.
    """
    if not blocks:
        return None
    frame = ablation_records(design, blocks, params, published)
    shown = frame[frame["metric"] == metric]
    if metric == KL:
        if not shown["seeds"].any():
            return None
        frame, title = shown, "KL"
        note = (
            "KL in nats from the evaluation's target, whose strings have the decimals of discretize.eval, to the "
            "model. A model that learned d decimals ends its numbers there: KL counts that, W1 sees a rounding of at "
            "most half of 10^-d. "
        )
    else:
        title = "W1"
        note = (
            "W1: normalised by the target's Q95 − Q05, family median, on an evaluation that no setting changes. A "
            f"perfect sampler scores {number_range(shown['floor'].tolist(), 4)} at these sample sizes. "
        )
    beside = bool(shown["published"].notna().any())
    note += _note(blocks, params)
    if beside:
        note += (
            " Paper: figures printed in arXiv:2605.11845 for the same model and settings, of one seed; no result of "
            "ours. ?: the text's digits may be misread; the table's file says why."
        )
    header, rows = _header(design, title, beside), _rows(design, shown, beside)
    return ListTable(name, caption, header, rows, 1 + len(design.factors), frame, note)


def _header(design: Design, metric: str, beside: bool) -> list[str]:
    header = ["Model", *design.titles, "Seeds"]
    for split in SPLIT_HEADINGS.values():
        header += [f"{split} {metric}", f"{split}: against the best"]
        header += [f"{split} {metric}, paper"] if beside else []
    return header


def _rows(design: Design, records: pd.DataFrame, beside: bool) -> list[list[str]]:
    """One row per block and setting, from the records of one metric."""
    rows = []
    for _, members in records.groupby(["display_name", *design.factors], sort=False, dropna=False):
        by_split = {row["split"]: row for row in members.to_dict("records")}
        first, seeds = by_split["ood"], max(row["seeds"] for row in by_split.values())
        row = [first["display_name"], *(_factor(first[key]) for key in design.factors), str(seeds) if seeds else DASH]
        for split in SPLIT_HEADINGS:
            row += [value_text(by_split[split]), verdict_text(by_split[split])]
            row += [published_text(by_split[split])] if beside else []
        rows.append(row)
    return rows


def _factor(value: Any) -> str:
    return "all" if pd.isna(value) else f"{int(value)}"


def verdict_text(record: Mapping[str, Any]) -> str:
    """The difference to the best setting and whether it exceeds seed noise."""
    if record["verdict"] in ("", "undefined"):
        return DASH
    if record["verdict"] == "best":
        return "best"
    return f"{record['difference']:+.4f}, {record['verdict']}"


def published_text(record: Mapping[str, Any]) -> str:
    """The paper's figure, with a question mark where a digit may be misread."""
    if not math.isfinite(record["published"]):
        return DASH
    return f"{record['published']:.4f}{'?' if record['published_uncertain'] == 'yes' else ''}"


def _note(blocks: Sequence[Block], params: Params) -> str:
    """What the columns are, and what the blocks were run with."""
    drawn = {"train_seed": "training", "sampling_seed": "samples", "seed": "prompts where there is a choice"}
    varied = [text for key, text in drawn.items() if any(key in block.varied for block in blocks)]
    note = (
        f"Mean ± standard deviation between seeds (smallest to largest); a seed draws anew: {', '.join(varied)}. "
        "Against the best: the difference of means to the model's best setting. "
        "Within seed noise: no larger than what chance makes of equal settings in 19 of 20 such tables (Tukey and "
        "Kramer's test of all pairs, pooled standard deviation between seeds). Seed noise is unknown where no setting "
        "has two seeds."
    )
    titles = block_titles(blocks, params)
    run = [(block, title) for block, title in zip(blocks, titles, strict=True) if block.runs]
    return f"{note} {scale_note([block for block, _ in run], [title for _, title in run])}".strip()


def published_only(models: Sequence[str], blocks: Sequence[Block], published: PublishedFigures) -> list[Block]:
    """Blocks without runs for models of the experiment that have published figures but no run."""
    known = {model for model, _, _ in published} - {block.model for block in blocks}
    empty: dict[Setting, list] = {}
    return [Block(model, {}, empty) for model in models if model in known]
