"""Tables 24 to 26: what strings cost to build, and metrics by setting over training seeds, against the best setting."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.config.params import Params
from pipeline.core.statistics.seed_noise import compare_with_best, spread
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
    block_titles,
    differences_note,
    is_papers_run,
    metric_by_seed,
)
from pipeline.report.across_axes.seeds import spread_columns, value_text, values_by_seed
from pipeline.report.table import DASH, MISSING, Table

HEADLINE = "wasserstein_1_normalised"
IN_FILE = (HEADLINE, "logit_kl_nats", "valid_rate")
"""Metrics of the tables' files; a table shows the first."""
SPLIT_HEADINGS = {split: f"{title[0].upper()}{title[1:]}" for split, title in SHORT_SPLIT_TITLES.items()}
REFERENCE = (5, 16384)
"""(decimals, most strings) of every evaluation."""


def ablation_tables(ablations: Ablations, params: Params) -> list[Table]:
    """Tables 24, 25 and 26, those of which there is anything to show."""
    hard, published = ablations.hard, ablations.published
    # Models of the experiment that have published figures but no run.
    known = {model for model, _, _ in published} - {block.model for block in hard}
    unrun = [Block(model, {}, {}) for model in params.models if model in known]
    soft_caption = "Table 25. Granularity of the soft-target method's strings"
    hard_caption = "Table 26. Strings and sampling budget of the hard-target method"
    tables = [
        construction_table(ablations.construction),
        ablation_table("table25", soft_caption, SOFT_GRANULARITY, ablations.soft, params, {}),
        ablation_table("table26", hard_caption, HARD_ABLATION, [*hard, *unrun], params, published),
    ]
    return [table for table in tables if table is not None]


def construction_table(records: pd.DataFrame) -> Table | None:
    """Table 24; settings of the grid that were not measured say so. None where nothing was measured."""
    if records.empty:
        return None
    header = ["Tokenizer", "Decimals", "Most strings", "Prompts"]
    for title in CONSTRUCTED.values():
        header += [f"{title}: mean time (ms)", f"{title}: largest peak (MB)"]
    rows = []
    for tokenizer, members in records.groupby("tokenizer", sort=False):
        found = {(row["num_decimals"], row["max_bins"]): row for row in members.to_dict("records")}
        for setting in [*GRANULARITY, *sorted(found.keys() - set(GRANULARITY), key=str)]:
            cells = [str(tokenizer), str(setting[0]), f"{_factor(setting[1])}{'*' if setting == REFERENCE else ''}"]
            if (row := found.get(setting)) is None:
                rows.append([*cells, *[MISSING] * (1 + 2 * len(CONSTRUCTED))])
                continue
            cells.append(str(row["prompts"]))
            for part in CONSTRUCTED:
                cells += [f"{row[f'{part}_mean_seconds'] * 1e3:.2f}", f"{row[f'{part}_peak_bytes'] / 1e6:.2f}"]
            rows.append(cells)
    return Table(
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
    tables = {
        setting: metric_by_seed(block.runs.get(setting, ()), block.model, design.condition, split, metric)
        for setting in block.settings(design)
    }
    spreads = {
        setting: spread(table["value"].astype(float).tolist()) for setting, table in tables.items() if len(table)
    }
    compared = compare_with_best(list(spreads.values()), lower_is_better=METRICS[metric].direction == "lower")
    comparisons = dict(zip(spreads, compared, strict=True))
    comparable = metric == HEADLINE and (not block.runs or is_papers_run(block.others))
    records = []
    for setting, table in tables.items():
        record = {"model": block.model, "display_name": title, **dict(zip(design.factors, setting, strict=True))}
        record |= {"split": split, "metric": metric, "status": MISSING, "seeds": 0, "undefined": 0}
        record |= dict.fromkeys(("mean", "deviation", "low", "high", "difference", "margin", "floor"), math.nan)
        record |= {"verdict": "", "values": "", "provenance": ""}
        if setting in spreads:
            by_seed = dict(zip(table["seed"].tolist(), table["value"].tolist(), strict=True))
            record |= spread_columns(spreads[setting]) | vars(comparisons[setting])
            record |= {"values": values_by_seed(by_seed), "floor": float(table["floor"].mean())}
            record["provenance"] = join_sources(table["provenance"])
        figure = published.get((block.model, setting, split)) if comparable else None
        records.append(record | _published(figure))
    return records


def _published(figure: Published | None) -> dict[str, Any]:
    return {
        "published": math.nan if figure is None else figure.value,
        "published_uncertain": "" if figure is None else "yes" if figure.uncertain else "no",
        "published_source": "" if figure is None else figure.source,
        "published_note": "" if figure is None else figure.note,
    }


def ablation_table(
    name: str, caption: str, design: Design, blocks: Sequence[Block], params: Params, published: PublishedFigures
) -> Table | None:
    """W1 by setting; None where nothing was run or published. The file has KL and valid rate, too.

    ``published`` are figures of the paper, shown in columns of their own beside the same runs and the models of
    ``blocks`` without any.
    """
    if not blocks:
        return None
    frame = ablation_records(design, blocks, params, published)
    shown = frame[frame["metric"] == HEADLINE]
    beside = bool(shown["published"].notna().any())
    header = ["Model", *design.titles, "Seeds"]
    for split in SPLIT_HEADINGS.values():
        header += [f"{split} W1", f"{split}: against the best", *([f"{split} W1, paper"] if beside else [])]
    rows = []
    for _, members in shown.groupby(["display_name", *design.factors], sort=False, dropna=False):
        by_split = {record["split"]: record for record in members.to_dict("records")}
        first, seeds = by_split["ood"], max(record["seeds"] for record in by_split.values())
        row = [first["display_name"], *(_factor(first[key]) for key in design.factors), str(seeds) if seeds else DASH]
        for record in (by_split[split] for split in SPLIT_HEADINGS):
            row += [value_text(record), verdict_text(record), *([published_text(record)] if beside else [])]
        rows.append(row)
    note = (
        "W1: normalised by the target's Q95 − Q05, family median, on an evaluation that no setting changes. A perfect "
        f"sampler scores {shown['floor'].mean():.4f} at these sample sizes. {_note(blocks, params)}"
    )
    if beside:
        note += (
            " Paper: figures printed in arXiv:2605.11845 for the same model and settings, of one seed; no result of "
            "ours. ?: the text's digits may be misread; the table's file says why."
        )
    return Table(name, caption, header, rows, 1 + len(design.factors), frame, note)


def _factor(value: Any) -> str:
    return "all" if pd.isna(value) else f"{int(value)}"


def verdict_text(record: Mapping[str, Any]) -> str:
    """The difference to the best setting and whether it exceeds seed noise."""
    if record["verdict"] in ("", "undefined"):
        return DASH
    return "best" if record["verdict"] == "best" else f"{record['difference']:+.4f}, {record['verdict']}"


def published_text(record: Mapping[str, Any]) -> str:
    """The paper's figure, with a question mark where a digit may be misread."""
    if not math.isfinite(record["published"]):
        return DASH
    return f"{record['published']:.4f}{'?' if record['published_uncertain'] == 'yes' else ''}"


def _note(blocks: Sequence[Block], params: Params) -> str:
    """What the columns are, and what the blocks were run with."""
    drawn = {"train_seed": "training", "sampling_seed": "samples", "seed": "prompts where there is a choice"}
    varied = [text for key, text in drawn.items() if any(key in block.varied for block in blocks)]
    run = [(block, title) for block, title in zip(blocks, block_titles(blocks, params), strict=True) if block.runs]
    differences = differences_note([block for block, _ in run], [title for _, title in run])
    return (
        f"Mean ± standard deviation between seeds (smallest to largest); a seed draws anew: {', '.join(varied)}. "
        "Against the best: the difference of means to the model's best setting. Within seed noise: no larger than what "
        "chance makes of equal settings in 19 of 20 such tables (Tukey and Kramer's test of all pairs, pooled standard "
        f"deviation between seeds). Seed noise is unknown where no setting has two seeds. {differences}"
    ).strip()
