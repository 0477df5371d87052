"""Finished cells of the ablation sweeps, grouped so that only the ablated settings and the seed differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.storage import read_json
from pipeline.config.params import Params
from pipeline.errors import ArtifactError
from pipeline.report.evaluations import Evaluations, read_evaluations

Setting = tuple[int | None, ...]
"""Values of a design's factors."""


@dataclass(frozen=True)
class Design:
    """What an ablation varies.

    Attributes:
        sweep: Directory of the sweep.
        condition: Condition that its cells train.
        factors: Keys of the varied parameters.
        titles: Column titles of the factors.
        settings: The settings of the paper's table (or of ours, where its text has none), in order.
    """

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
        (3, 1001, 16, 2),
        (2, 1001, 16, 2),
        (5, 1001, 16, 2),
        (3, 4096, 16, 2),
        (3, 16384, 16, 2),
        (3, 1001, 8, 4),
        (3, 1001, 32, 1),
        (5, 16384, 8, 4),
        (5, 16384, 16, 2),
        (5, 16384, 32, 1),
    ),
)
"""Table 26 of arXiv:2605.11845."""


@dataclass(frozen=True)
class CellRun:
    """One finished cell.

    Attributes:
        directory: The cell's directory.
        seed: Root seed of its draws.
        setting: Values of the design's factors.
        evaluations: What it evaluated.
    """

    directory: Path
    seed: int
    setting: Setting
    evaluations: Evaluations


@dataclass(frozen=True)
class Block:
    """The cells of one model that agree in everything but factors and seed; only these may be compared.

    Attributes:
        model: The model.
        others: Parameters that they share, flat, without seed, factors and display name.
        runs: Runs by setting, in order of their seeds.
    """

    model: str
    others: Mapping[str, Any]
    runs: Mapping[Setting, Sequence[CellRun]]

    def settings(self, design: Design) -> list[Setting]:
        """The design's settings in order, then others that were run."""
        further = sorted((item for item in self.runs if item not in design.settings), key=str)
        return [*design.settings, *further]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat.update(flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value})
    return flat


def finished_cells(sweeps: Path, sweep: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Directory and flat parameters of each finished cell; unfinished and failed ones are passed over.

    Raises:
        ArtifactError: A finished cell's record is unreadable.
    """
    for finished in sorted((sweeps / sweep).glob("*/finished.json")):
        record = finished.with_name("cell.json")
        # Written before finished.json; missing only where somebody removed it.
        if record.exists():
            yield finished.parent, flatten(read_json(record)["parameters"])


def evaluation_roots(directory: Path) -> list[Path]:
    """Directories of evaluations below a cell's: one below its artifacts, one deeper in a rehearsal with stand-ins."""
    return sorted(path for depth in ("*", "*/*") for path in directory.glob(f"{depth}/evals") if path.is_dir())


def _evaluations(directory: Path) -> Evaluations:
    roots = evaluation_roots(directory)
    if len(roots) != 1:
        raise ArtifactError(f"{directory} is a finished cell and must hold one set of evaluations; found {len(roots)}")
    return read_evaluations(roots[0])


def read_blocks(sweeps: Path, design: Design) -> list[Block]:
    """The finished cells of a design, by model and shared parameters, in order of model names.

    Args:
        sweeps: Directory of all sweeps; may be missing.
        design: What was varied.

    Raises:
        ArtifactError: A cell's evaluation is missing or unreadable, or it lacks a factor or the seed.
    """
    found: dict[tuple[str, str], tuple[dict[str, Any], list[CellRun]]] = {}
    for directory, parameters in finished_cells(sweeps, design.sweep):
        absent = [key for key in ("seed", *design.factors) if key not in parameters]
        if absent:
            raise ArtifactError(f"{directory / 'cell.json'}: parameters lack {', '.join(absent)}")
        setting = tuple(parameters[key] for key in design.factors)
        evaluations = _evaluations(directory)
        run = CellRun(directory, parameters["seed"], setting, evaluations)
        others = {
            key: value
            for key, value in sorted(parameters.items())
            if key != "seed" and key not in design.factors and not key.endswith(".display_name")
        }
        trained = evaluations.metrics[evaluations.metrics["condition"] == design.condition]
        for model in sorted(set(trained["model"])):
            found.setdefault((model, repr(others)), (others, []))[1].append(run)
    return [_block(model, *found[model, text]) for model, text in sorted(found)]


def _block(model: str, others: Mapping[str, Any], runs: Sequence[CellRun]) -> Block:
    by_setting: dict[Setting, dict[int, CellRun]] = {}
    for run in runs:
        # One cell per seed: a second one with other targets has trained the same.
        by_setting.setdefault(run.setting, {}).setdefault(run.seed, run)
    ordered = {setting: [members[seed] for seed in sorted(members)] for setting, members in by_setting.items()}
    return Block(model, others, ordered)


def metric_by_seed(runs: Sequence[CellRun], model: str, condition: str, split: str, metric: str) -> pd.DataFrame:
    """Rows of the metrics table of one aggregate, one per run that has it, with its ``seed``."""
    parts = []
    for run in runs:
        rows = run.evaluations.metrics
        chosen = rows[
            (rows["axis"] == "structured")
            & (rows["model"] == model)
            & (rows["condition"] == condition)
            & (rows["split"] == split)
            & (rows["family"] == "")
            & (rows["metric"] == metric)
        ]
        parts.append(chosen.assign(seed=run.seed))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["seed", "value"])


def block_titles(blocks: Sequence[Block], config: Params) -> list[str]:
    """Display names, numbered where a model has several blocks."""
    titles = []
    for place, block in enumerate(blocks):
        model = config.models.get(block.model)
        same = [index for index, other in enumerate(blocks) if other.model == block.model]
        number = f" ({same.index(place) + 1})" if len(same) > 1 else ""
        titles.append(f"{model.display_name if model else block.model}{number}")
    return titles


SCALE = (
    ("prompts.train_prompts_per_family", "training prompts per family"),
    ("train.soft.epochs", "epochs"),
    ("train.learning_rate", "learning rate"),
    ("train.global_batch_size", "batch size"),
    ("generate.structured.num_samples", "generations per prompt"),
)
"""Parameters by which a reader tells a demo from the paper's scale."""


def scale_note(blocks: Sequence[Block], titles: Sequence[str]) -> str:
    """What each block was run with, and in what blocks of one model differ."""
    notes = []
    for block, title in zip(blocks, titles, strict=True):
        siblings = [other.others for other in blocks if other.model == block.model]
        differing = [
            key
            for key in sorted({key for others in siblings for key in others})
            if len({repr(others.get(key)) for others in siblings}) > 1
        ]
        shown = [(key, name) for key, name in SCALE if key in block.others and key not in differing]
        shown += [(key, key) for key in differing]
        values = [f"{name} {_text(block.others.get(key))}" for key, name in shown]
        notes.append(f"{title}: {', '.join(values)}.")
    return " ".join(notes)


def _text(value: Any) -> str:
    return "all" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
