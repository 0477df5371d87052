"""Tables 24 to 26 and Figure 14 from finished cells of sweeps, over training seeds and against the best setting."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.axes.registry import METRICS, SHORT_SPLIT_TITLES
from pipeline.axes.structured.figures import overlay_prompts, sample_overlays
from pipeline.config.params import Params
from pipeline.config.seeds import SEEDS, varied_seeds
from pipeline.core.prompts.structured import Prompt
from pipeline.core.statistics.seed_noise import compare_with_best, spread
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources
from pipeline.report.cells import Cell, finished_cells
from pipeline.report.evaluations import rows_of
from pipeline.report.figures.drawing import Drawing
from pipeline.report.seeds import spread_columns, value_text, values_by_seed
from pipeline.report.table import DASH, MISSING, Table

Setting = tuple[int | None, ...]  # values of the parameters that an ablation varies
PAPER_SETTINGS: Mapping[str, Any] = {
    "prompts.families": None,
    "prompts.train_prompts_per_family": None,
    "prompts.unseen_selection": "selected",
    "prompts.ood_selection": "selected",
    "discretize.eval.num_decimals": 5,
    "discretize.eval.max_bins": 16384,
    "train.lora_rank": 16,
    "train.lora_alpha": 32,
    "train.lora_dropout": 0.05,
    "train.learning_rate": 2e-4,
    "train.weight_decay": 0.01,
    "train.warmup_ratio": 0.03,
    "train.global_batch_size": 32,
    "train.max_length": 256,
    "train.max_grad_norm": None,
    "train.order": "rounds",
    "train.temperature": 1.0,
    "train.hard.completions_per_prompt": 1,
    "train.hard.loss_reduction": "token",
    "generate.structured.num_samples": 1000,
    "generate.structured.temperature": 1.0,
    "generate.structured.top_p": 1.0,
}
"""What a cell of ours must share with Tables 3 and 4 for the paper's figures to stand beside it."""


class Design(NamedTuple):
    """What an ablation varies: keys of parameters, and the settings of the paper's table (or ours) in order."""

    sweep: str
    condition: str
    table: str
    caption: str
    factors: tuple[str, ...]
    titles: tuple[str, ...]
    settings: tuple[Setting, ...]


GRANULARITY = tuple(product((1, 2, 3, 5), (1001, 4096, 16384)))
"""(decimals, most strings): the grid of Tables 24 and 25, which is not in the paper's text."""
SOFT_GRANULARITY = Design(
    "soft_granularity",
    "soft",
    "table25",
    "Table 25. Granularity of the soft-target method's strings",
    ("discretize.soft.num_decimals", "discretize.soft.max_bins"),
    ("Decimals", "Most strings"),
    GRANULARITY,
)
HARD_ABLATION = Design(
    "hard_ablation",
    "hard",
    "table26",
    "Table 26. Strings and sampling budget of the hard-target method",
    ("discretize.hard.num_decimals", "discretize.hard.max_bins", "train.hard.samples_per_prompt", "train.hard.epochs"),
    ("Decimals", "Most strings", "Draws per prompt and epoch", "Epochs"),
    (
        *((3, 1001, 16, 2), (2, 1001, 16, 2), (5, 1001, 16, 2), (3, 4096, 16, 2), (3, 16384, 16, 2)),
        *((3, 1001, 8, 4), (3, 1001, 32, 1), (5, 16384, 8, 4), (5, 16384, 16, 2), (5, 16384, 32, 1)),
    ),
)
CONSTRUCTION_COST = "construction_cost"
CONSTRUCTED = {"output_space": "Output space", "trie": "Trie"}  # titles of what the sweep ``construction_cost`` builds
REFERENCE = (5, 16384)  # (decimals, most strings) of every evaluation
HEADLINE = "wasserstein_1_normalised"
IN_FILE = (HEADLINE, "logit_kl_nats", "valid_rate")  # metrics of the tables' files; a table shows the first
SPLIT_HEADINGS = {split: f"{title[0].upper()}{title[1:]}" for split, title in SHORT_SPLIT_TITLES.items()}
DRAWN_STRINGS = 1001  # largest number of strings of the cells that Figure 14 is of


@dataclass(frozen=True)
class Block:
    """Cells of one model that agree in all but the ablated settings and seeds."""

    model: str
    title: str
    others: Mapping[str, Any]  # what they agree in
    metrics: pd.DataFrame  # aggregates of metrics.csv with ``setting`` and ``seed``, one cell for each of the two
    varied: tuple[str, ...] = SEEDS  # keys of the seeds that differ, of which the first tells cells apart
    cells: Sequence[tuple[Setting, Cell]] = ()


def read_blocks(sweeps: Path, design: Design, params: Params) -> list[Block]:
    """The blocks of a design's sweep, by model. Raises ArtifactError for a cell without a factor, or crossed seeds."""
    found: dict[tuple[str, str], list[tuple[Setting, Cell, pd.DataFrame]]] = {}
    agreed: dict[str, dict[str, Any]] = {}
    for cell in finished_cells(sweeps / design.sweep):
        if absent := [key for key in ("seed", *design.factors) if key not in cell.parameters]:
            raise ArtifactError(f"{cell.directory / 'cell.json'}: parameters lack {', '.join(absent)}")
        kept = [
            key for key in cell.parameters if key not in (*SEEDS, *design.factors) and not key.endswith(".display_name")
        ]
        others = {key: cell.parameters[key] for key in sorted(kept)}
        agreed[repr(others)] = others
        setting = tuple(cell.parameters[key] for key in design.factors)
        rows = rows_of(cell.evaluations.metrics, axis="structured", condition=design.condition, family="")
        for model, members in rows.groupby("model"):
            found.setdefault((model, repr(others)), []).append((setting, cell, members))
    numbered: dict[str, list[str]] = {}
    for model, text in sorted(found):
        numbered.setdefault(model, []).append(text)
    return [
        _block(params, model, number if len(texts) > 1 else 0, agreed[text], found[model, text])
        for model, texts in numbered.items()
        for number, text in enumerate(texts, start=1)
    ]


def _block(
    params: Params,
    model: str,
    number: int,
    others: Mapping[str, Any],
    members: Sequence[tuple[Setting, Cell, pd.DataFrame]],
) -> Block:
    try:
        varied = varied_seeds([cell.seeds for _, cell, _ in members])
    except ValueError as error:
        sweep = members[0][1].directory.parent
        raise ArtifactError(f"{sweep}: {model}: {error}; run one of them in a sweep of its own") from None
    # One cell per setting and seed: a second one with other targets has trained the same.
    cells = {(setting, cell.seeds[varied[0]]): (cell, rows) for setting, cell, rows in reversed(members)}
    tables = [
        rows.assign(setting=[setting] * len(rows), seed=seed)
        for (setting, seed), (_, rows) in sorted(cells.items(), key=lambda item: item[0][1])
    ]
    title = display_name(params, model) + (f" ({number})" if number else "")
    kept = [(setting, cell) for (setting, _), (cell, _) in cells.items()]
    return Block(model, title, others, pd.concat(tables, ignore_index=True), varied, kept)


def display_name(params: Params, model: str) -> str:
    """Its display name, where the experiment has the model."""
    return params.models[model].display_name if model in params.models else model


def read_published(path: Path) -> dict[tuple[str, Setting, str], dict[str, Any]]:
    """The figures that the paper prints for Table 26, by model, setting and split; none where the file is missing."""
    if not path.exists():
        return {}
    factors = ["num_decimals", "max_bins", "samples_per_prompt", "epochs"]
    rows = pd.read_csv(path, keep_default_na=False).to_dict("records")
    return {(row["model"], tuple(row[key] for key in factors), row["split"]): row for row in rows}


@dataclass(frozen=True)
class Ablations:
    """The report's part on ablations."""

    tables: list[Table]
    drawings: dict[str, Drawing]
    missing: list[str]  # the sweeps without any run, with their tables
    models: set[str]  # of all cells that train
    sources: dict[str, dict]  # content of each provenance file of their evaluations by its path


def read_ablations(sweeps: Path, published: Path, params: Params, prompts: Sequence[Prompt]) -> Ablations:
    """Tables and figure from all cells below ``sweeps``; ``published`` is the file of the paper's Table 26."""
    construction = construction_records(sweeps)
    soft, hard = (read_blocks(sweeps, design, params) for design in (SOFT_GRANULARITY, HARD_ABLATION))
    printed = read_published(published)
    # Models of the experiment that have published figures but no cell.
    known = {model for model, _, _ in printed} - {block.model for block in hard}
    nothing = pd.DataFrame(columns=["setting", "seed", "split", "metric", "value"])
    unrun = [Block(model, display_name(params, model), {}, nothing) for model in params.models if model in known]
    tables = [
        construction_table(construction),
        ablation_table(SOFT_GRANULARITY, soft, {}),
        ablation_table(HARD_ABLATION, [*hard, *unrun], printed),
    ]
    numbers = {
        f"{CONSTRUCTION_COST} (Table 24)": construction,
        f"{SOFT_GRANULARITY.sweep} (Table 25, Figure 14)": soft,
        f"{HARD_ABLATION.sweep} (Table 26)": hard,
    }
    blocks = [*soft, *hard]
    return Ablations(
        [table for table in tables if table is not None],
        precision_drawings(soft, prompts),
        [name for name, members in numbers.items() if not len(members)],
        {block.model for block in blocks},
        {p: c for block in blocks for _, cell in block.cells for p, c in cell.evaluations.provenance.items()},
    )


def construction_records(sweeps: Path) -> pd.DataFrame:
    """One row per tokenizer and setting that was measured: seconds and peak bytes of each part, and provenance."""
    columns = ("prompt_id", *(f"{part}_{measure}" for part in CONSTRUCTED for measure in ("seconds", "peak_bytes")))
    order, parts = ["tokenizer", "num_decimals", "max_bins"], []
    for cell in finished_cells(sweeps / CONSTRUCTION_COST):
        for path in sorted(cell.directory.glob("*/construction/*-soft/per_prompt.parquet")):
            setting = {key: cell.parameters[f"discretize.soft.{key}"] for key in order[1:]}
            table = read_table(path, columns).assign(tokenizer=path.parent.name.removesuffix("-soft"), **setting)
            parts.append(table.assign(provenance=str(path.with_name("provenance.json"))))
    if not parts:
        return pd.DataFrame(columns=order)
    statistics: dict[str, tuple[str, Any]] = {"prompts": ("prompt_id", "nunique")}
    for part in CONSTRUCTED:
        statistics[f"{part}_mean_seconds"] = (f"{part}_seconds", "mean")
        statistics[f"{part}_max_seconds"] = (f"{part}_seconds", "max")
        statistics[f"{part}_peak_bytes"] = (f"{part}_peak_bytes", "max")
    statistics["provenance"] = ("provenance", lambda paths: join_sources(paths.unique()))
    return pd.concat(parts, ignore_index=True).groupby(order, dropna=False).agg(**statistics).reset_index()


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
            strings = f"{_factor(setting[1])}{'*' if setting == REFERENCE else ''}"
            row, cells = found.get(setting), [MISSING] * (1 + 2 * len(CONSTRUCTED))
            if row is not None:
                cells = [str(row["prompts"])]
                for part in CONSTRUCTED:
                    cells += [f"{row[f'{part}_mean_seconds'] * 1e3:.2f}", f"{row[f'{part}_peak_bytes'] / 1e6:.2f}"]
            rows.append([str(tokenizer), str(setting[0]), strings, *cells])
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


def _block_records(
    design: Design, block: Block, split: str, metric: str, published: Mapping[tuple, Mapping]
) -> list[dict[str, Any]]:
    """The settings of one block, split and metric, in full precision."""
    rows = rows_of(block.metrics, split=split, metric=metric)
    settings = [*design.settings, *sorted(set(block.metrics["setting"]) - set(design.settings), key=str)]
    tables = {setting: rows[[own == setting for own in rows["setting"]]] for setting in settings}
    spreads = {
        setting: spread(table["value"].astype(float).tolist()) for setting, table in tables.items() if len(table)
    }
    compared = compare_with_best(list(spreads.values()), lower_is_better=METRICS[metric].direction == "lower")
    comparisons = dict(zip(spreads, compared, strict=True))
    papers = all(key in block.others and block.others[key] == value for key, value in PAPER_SETTINGS.items())
    # Laws in words are further training prompts.
    papers &= not any(key.startswith("laws.") for key in block.others)
    comparable = metric == HEADLINE and (papers or not block.cells)
    records = []
    for setting, table in tables.items():
        record = {"model": block.model, "display_name": block.title, **dict(zip(design.factors, setting, strict=True))}
        record |= {"split": split, "metric": metric, "status": MISSING, "seeds": 0, "undefined": 0}
        record |= dict.fromkeys(("mean", "deviation", "low", "high", "difference", "margin", "floor"), math.nan)
        record |= dict.fromkeys(("verdict", "values", "provenance"), "")
        if setting in spreads:
            by_seed = dict(zip(table["seed"].tolist(), table["value"].tolist(), strict=True))
            record |= spread_columns(spreads[setting]) | vars(comparisons[setting])
            record |= {"values": values_by_seed(by_seed), "floor": float(table["floor"].mean())}
            record["provenance"] = join_sources(table["provenance"])
        printed = published.get((block.model, setting, split), {}) if comparable else {}
        record["published"] = printed.get(HEADLINE, math.nan)
        record |= {f"published_{name}": printed.get(name, "") for name in ("uncertain", "source", "note")}
        records.append(record)
    return records


def ablation_table(design: Design, blocks: Sequence[Block], published: Mapping[tuple, Mapping]) -> Table | None:
    """W1 by setting, beside the paper's figures for the same settings; None without blocks. The file has IN_FILE."""
    if not blocks:
        return None
    frame = pd.DataFrame(
        [
            record
            for block in blocks
            for split in SPLIT_HEADINGS
            for metric in IN_FILE
            for record in _block_records(design, block, split, metric, published)
        ]
    )
    shown = frame[frame["metric"] == HEADLINE]
    beside = bool(shown["published"].notna().any())
    header = ["Model", *design.titles, "Seeds"]
    for split in SPLIT_HEADINGS.values():
        header += [f"{split} W1", f"{split}: against the best", *([f"{split} W1, paper"] if beside else [])]
    rows = []
    for _, members in shown.groupby(["display_name", *design.factors], sort=False, dropna=False):
        records = {record["split"]: record for record in members.to_dict("records")}
        first, seeds = records["ood"], max(record["seeds"] for record in records.values())
        row = [first["display_name"], *(_factor(first[key]) for key in design.factors), str(seeds) if seeds else DASH]
        for record in (records[split] for split in SPLIT_HEADINGS):
            row += [value_text(record), _verdict_text(record), *([_published_text(record)] if beside else [])]
        rows.append(row)
    note = (
        "W1: normalised by the target's Q95 − Q05, family median, on an evaluation that no setting changes. A perfect "
        f"sampler scores {shown['floor'].mean():.4f} at these sample sizes. {_note(blocks)}"
    )
    if beside:
        note += (
            " Paper: figures printed in arXiv:2605.11845 for the same model and settings, of one seed; no result of "
            "ours. ?: the text's digits may be misread; the table's file says why."
        )
    return Table(design.table, design.caption, header, rows, 1 + len(design.factors), frame, note)


def _factor(value: Any) -> str:
    return "all" if pd.isna(value) else f"{int(value)}"


def _verdict_text(record: Mapping[str, Any]) -> str:
    if record["verdict"] in ("", "undefined"):
        return DASH
    return "best" if record["verdict"] == "best" else f"{record['difference']:+.4f}, {record['verdict']}"


def _published_text(record: Mapping[str, Any]) -> str:
    if not math.isfinite(record["published"]):
        return DASH
    return f"{record['published']:.4f}{'?' if record['published_uncertain'] == 'yes' else ''}"


def _note(blocks: Sequence[Block]) -> str:
    """What the columns are, and in what the blocks of one model differ."""
    drawn = {"train_seed": "training", "sampling_seed": "samples", "seed": "prompts where there is a choice"}
    varied = [text for key, text in drawn.items() if any(key in block.varied for block in blocks)]
    notes = [
        f"Mean ± standard deviation between seeds (smallest to largest); a seed draws anew: {', '.join(varied)}. "
        "Against the best: the difference of means to the model's best setting. Within seed noise: no larger than what "
        "chance makes of equal settings in 19 of 20 such tables (Tukey and Kramer's test of all pairs, pooled standard "
        "deviation between seeds). Seed noise is unknown where no setting has two seeds."
    ]
    for block in blocks:
        siblings = [other.others for other in blocks if other.model == block.model]
        keys = sorted({key for others in siblings for key in others})
        differing = [key for key in keys if len({repr(others.get(key)) for others in siblings}) > 1]
        if differing:
            notes.append(f"{block.title}: {', '.join(f'{key} {block.others.get(key)}' for key in differing)}.")
    return " ".join(notes)


def precision_drawings(blocks: Sequence[Block], prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14 by its file name, one prompt per held-out family; empty without samples."""
    shown = overlay_prompts(prompts)
    samples: dict[str, dict[tuple[str, str], list]] = {}
    for block in blocks:
        for (decimals, strings), cell in block.cells:
            label = f"{decimals} decimal{'s' if decimals != 1 else ''}"
            own = {}
            if strings == DRAWN_STRINGS:
                own = cell.evaluations.samples([block.model], [SOFT_GRANULARITY.condition])
            for (_, prompt_id), values in own.get(block.model, {}).items():
                samples.setdefault(block.title, {}).setdefault((label, prompt_id), []).extend(values)
    labels = sorted({label for found in samples.values() for label, _ in found})
    if not shown or not labels:
        return {}
    kept = {prompt.prompt_id for prompt in shown}
    arrays = {
        title: {key: np.array(values) for key, values in found.items() if key[1] in kept}
        for title, found in samples.items()
    }
    caption = (
        "Figure 14. Held-out laws (black) with samples of soft-target models by the number of decimals that they were "
        f"trained on, all seeds together; at most {DRAWN_STRINGS} strings per law."
    )
    return {"figure14": Drawing(sample_overlays, (shown, arrays, {title: title for title in arrays}, labels), caption)}
