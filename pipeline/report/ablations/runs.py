"""What the ablation sweeps have finished, grouped so that only the ablated settings and the seeds differ."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.artifacts.storage import read_json, read_table
from pipeline.config.params import Params
from pipeline.config.seeds import SEEDS, varied_seeds
from pipeline.errors import ArtifactError
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import Evaluations, flatten, read_evaluations, rows_of

Setting = tuple[int | None, ...]
"""Values of the parameters that an ablation varies."""
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
    "train.hard.completions_per_prompt": 1,
    "train.hard.loss_reduction": "token",
    "generate.structured.num_samples": 1000,
    "generate.structured.temperature": 1.0,
    "generate.structured.top_p": 1.0,
}
"""What a run of ours must share with Tables 3 and 4 to be the same as the paper's."""


class Design(NamedTuple):
    """What an ablation varies: keys of parameters, and the settings of the paper's table (or ours) in order."""

    sweep: str
    condition: str
    factors: tuple[str, ...]
    titles: tuple[str, ...]
    settings: tuple[Setting, ...]


GRANULARITY = tuple(product((1, 2, 3, 5), (1001, 4096, 16384)))
"""(decimals, most strings): Table 25's grid is not in the paper's text; this is conf/sweep/soft_granularity.yaml."""
SOFT_GRANULARITY = Design(
    "soft_granularity",
    "soft",
    ("discretize.soft.num_decimals", "discretize.soft.max_bins"),
    ("Decimals", "Most strings"),
    GRANULARITY,
)
HARD_ABLATION = Design(
    "hard_ablation",
    "hard",
    ("discretize.hard.num_decimals", "discretize.hard.max_bins", "train.hard.samples_per_prompt", "train.hard.epochs"),
    ("Decimals", "Most strings", "Draws per prompt and epoch", "Epochs"),
    (
        *((3, 1001, 16, 2), (2, 1001, 16, 2), (5, 1001, 16, 2), (3, 4096, 16, 2), (3, 16384, 16, 2)),
        *((3, 1001, 8, 4), (3, 1001, 32, 1), (5, 16384, 8, 4), (5, 16384, 16, 2), (5, 16384, 32, 1)),
    ),
)
"""Table 26 of arXiv:2605.11845."""
CONSTRUCTION_COST = "construction_cost"
"""Directory of the sweep that measures what output spaces and tries take to build."""
CONSTRUCTED = {"output_space": "Output space", "trie": "Trie"}
"""Titles of what it builds."""


@dataclass(frozen=True)
class Run:
    """A finished cell of a sweep; ``seed`` is that which tells it from its block's other runs of the setting."""

    directory: Path
    seeds: Mapping[str, int]
    setting: Setting
    evaluations: Evaluations
    seed: int = 0


@dataclass(frozen=True)
class Block:
    """The runs of one model that agree in everything but factors and seeds; only these may be compared.

    Attributes:
        others: Parameters that they share, flat, without seeds, factors and display name.
        runs: Runs by setting, in order of their seeds.
        varied: The seeds that differ between them, by their keys; the first is that of the runs.
    """

    model: str
    others: Mapping[str, Any]
    runs: Mapping[Setting, Sequence[Run]]
    varied: tuple[str, ...] = SEEDS

    def settings(self, design: Design) -> list[Setting]:
        """The design's settings in order, then others that were run."""
        return [*design.settings, *sorted(self.runs.keys() - set(design.settings), key=str)]


class Published(NamedTuple):
    """A figure that the paper prints; ``uncertain`` says that a digit may be misread, and ``note`` why."""

    value: float
    uncertain: bool
    source: str
    note: str


PublishedFigures = Mapping[tuple[str, Setting, str], Published]
"""By model, setting and split."""
PUBLISHED_COLUMNS = (
    *("model", "num_decimals", "max_bins", "samples_per_prompt", "epochs", "split"),
    *("wasserstein_1_normalised", "uncertain", "source", "note"),
)


@dataclass(frozen=True)
class Ablations:
    """Measurements of Table 24, runs of Tables 25 and 26, and the figures that the paper prints for Table 26."""

    construction: pd.DataFrame
    soft: list[Block]
    hard: list[Block]
    published: PublishedFigures

    @property
    def missing(self) -> list[str]:
        """The sweeps without any run, with their tables."""
        found = {
            f"{CONSTRUCTION_COST} (Table 24)": len(self.construction),
            f"{SOFT_GRANULARITY.sweep} (Table 25, Figure 14)": len(self.soft),
            f"{HARD_ABLATION.sweep} (Table 26)": len(self.hard),
        }
        return [name for name, number in found.items() if not number]

    def are_all_of(self, models: Collection[str]) -> bool:
        """Whether every run that trains is of one of the models."""
        return all(block.model in models for block in (*self.soft, *self.hard))

    @property
    def trained(self) -> dict[str, dict]:
        """Content of each provenance file of the evaluations of Tables 25 and 26 by its path."""
        runs = [run for block in (*self.soft, *self.hard) for members in block.runs.values() for run in members]
        return {path: content for run in runs for path, content in run.evaluations.provenance.items()}


def read_ablations(sweeps: Path, published: Path) -> Ablations:
    """Read all runs of the three sweeps, and ``table26.csv`` of the published figures. Raises ArtifactError."""
    return Ablations(
        construction_records(sweeps),
        read_blocks(sweeps, SOFT_GRANULARITY),
        read_blocks(sweeps, HARD_ABLATION),
        read_published(published / "table26.csv"),
    )


def read_published(path: Path) -> dict[tuple[str, Setting, str], Published]:
    """The published figures by model, setting and split; none where the file is missing. Raises ArtifactError."""
    if not path.exists():
        return {}
    found = {}
    try:
        for row in pd.read_csv(path, keep_default_na=False).itertuples():
            setting = tuple(map(int, (row.num_decimals, row.max_bins, row.samples_per_prompt, row.epochs)))
            uncertain = {"yes": True, "no": False}[row.uncertain]
            figure = Published(float(row.wasserstein_1_normalised), uncertain, row.source, row.note)
            found[row.model, setting, row.split] = figure
    except (AttributeError, KeyError, ValueError) as error:
        raise ArtifactError(f"{path} must have the columns {', '.join(PUBLISHED_COLUMNS)} ({error})") from None
    return found


def is_papers_run(others: Mapping[str, Any]) -> bool:
    """Whether the parameters beside an ablation's factors and the seed are the paper's."""
    return all(key in others and others[key] == value for key, value in PAPER_SETTINGS.items())


def finished_runs(sweeps: Path, sweep: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Directory and flat parameters of each run of a sweep; cells that are not finished are passed over."""
    for finished in sorted((sweeps / sweep).glob("*/finished.json")):
        record = finished.with_name("cell.json")
        # Written before finished.json; missing only where somebody removed it.
        if record.exists():
            yield finished.parent, flatten(read_json(record)["parameters"])


def evaluation_roots(directory: Path) -> list[Path]:
    """Directories of evaluations below a run's: one below its artifacts, one deeper in a rehearsal with stand-ins."""
    return sorted(path for depth in ("*", "*/*") for path in directory.glob(f"{depth}/evals") if path.is_dir())


def read_blocks(sweeps: Path, design: Design) -> list[Block]:
    """The runs of a design, by model and shared parameters, in order of model names.

    Raises:
        ArtifactError: A run's evaluation is missing or unreadable, it lacks a factor or the seed, or a model's runs
            cross seeds.
    """
    found: dict[tuple[str, str], tuple[dict[str, Any], list[Run]]] = {}
    for directory, parameters in finished_runs(sweeps, design.sweep):
        absent = [key for key in ("seed", *design.factors) if key not in parameters]
        if absent:
            raise ArtifactError(f"{directory / 'cell.json'}: parameters lack {', '.join(absent)}")
        roots = evaluation_roots(directory)
        if len(roots) != 1:
            raise ArtifactError(
                f"{directory} is a finished cell and must hold one set of evaluations, not {len(roots)}"
            )
        evaluations = read_evaluations(roots[0])
        seeds = {key: parameters.get(key, parameters["seed"]) for key in SEEDS}
        run = Run(directory, seeds, tuple(parameters[key] for key in design.factors), evaluations)
        others = {
            key: value
            for key, value in sorted(parameters.items())
            if key not in SEEDS and key not in design.factors and not key.endswith(".display_name")
        }
        for model in sorted(set(rows_of(evaluations.metrics, condition=design.condition)["model"])):
            found.setdefault((model, repr(others)), (others, []))[1].append(run)
    return [_block(model, *found[model, text]) for model, text in sorted(found)]


def _block(model: str, others: Mapping[str, Any], runs: Sequence[Run]) -> Block:
    try:
        varied = varied_seeds([run.seeds for run in runs])
    except ValueError as error:
        raise ArtifactError(
            f"{runs[0].directory.parent}: {model}: {error}; run one of them in a sweep of its own"
        ) from None
    by_setting: dict[Setting, dict[int, Run]] = {}
    for run in runs:
        seed = run.seeds[varied[0]]
        # One run per seed: a second one with other targets has trained the same.
        by_setting.setdefault(run.setting, {}).setdefault(seed, replace(run, seed=seed))
    ordered = {setting: [members[seed] for seed in sorted(members)] for setting, members in by_setting.items()}
    return Block(model, others, ordered, varied)


def construction_records(sweeps: Path) -> pd.DataFrame:
    """One row per tokenizer and setting that was measured.

    Columns: tokenizer, num_decimals, max_bins, prompts, and for ``output_space`` and ``trie`` the mean and largest
    seconds over prompts and the largest peak in bytes; paths of the provenance files.
    """
    columns = ("prompt_id", *(f"{part}_{measure}" for part in CONSTRUCTED for measure in ("seconds", "peak_bytes")))
    order, parts = ["tokenizer", "num_decimals", "max_bins"], []
    for directory, parameters in finished_runs(sweeps, CONSTRUCTION_COST):
        for path in sorted(directory.glob("*/construction/*-soft/per_prompt.parquet")):
            setting = {key: parameters[f"discretize.soft.{key}"] for key in order[1:]}
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


def metric_by_seed(runs: Sequence[Run], model: str, condition: str, split: str, metric: str) -> pd.DataFrame:
    """Rows of the metrics of one aggregate, one per run that has it, with its ``seed``."""
    parts = []
    for run in runs:
        labels = {"model": model, "condition": condition, "split": split, "family": "", "metric": metric}
        parts.append(rows_of(run.evaluations.metrics, axis="structured", **labels).assign(seed=run.seed))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["seed", "value"])


def block_titles(blocks: Sequence[Block], params: Params) -> list[str]:
    """Display names, numbered where a model has several blocks."""
    titles = []
    for place, block in enumerate(blocks):
        model = params.models.get(block.model)
        same = [index for index, other in enumerate(blocks) if other.model == block.model]
        number = f" ({same.index(place) + 1})" if len(same) > 1 else ""
        titles.append(f"{model.display_name if model else block.model}{number}")
    return titles


def differences_note(blocks: Sequence[Block], titles: Sequence[str]) -> str:
    """In what the blocks of one model differ."""
    notes = []
    for block, title in zip(blocks, titles, strict=True):
        siblings = [other.others for other in blocks if other.model == block.model]
        keys = sorted({key for others in siblings for key in others})
        differing = [key for key in keys if len({repr(others.get(key)) for others in siblings}) > 1]
        if differing:
            notes.append(f"{title}: {', '.join(f'{key} {block.others.get(key)}' for key in differing)}.")
    return " ".join(notes)
