"""Figures that the paper prints for its ablation, shown beside ours and never mixed with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import ArtifactError

Setting = tuple[int | None, ...]
"""Values of the parameters that an ablation varies."""
COLUMNS = (
    "model",
    "num_decimals",
    "max_bins",
    "samples_per_prompt",
    "epochs",
    "split",
    "wasserstein_1_normalised",
    "uncertain",
    "source",
    "note",
)
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


@dataclass(frozen=True)
class Published:
    """One printed figure; ``uncertain`` says that a digit may be misread, and ``note`` why."""

    value: float
    uncertain: bool
    source: str
    note: str


PublishedFigures = Mapping[tuple[str, Setting, str], Published]
"""By model, setting and split."""


def read_published(path: Path) -> dict[tuple[str, Setting, str], Published]:
    """Read the published figures; none where the file is missing.

    Raises:
        ArtifactError: A column or value is missing or of another type.
    """
    if not path.exists():
        return {}
    try:
        table = pd.read_csv(path, keep_default_na=False)
        figures = {
            (
                row.model,
                (int(row.num_decimals), int(row.max_bins), int(row.samples_per_prompt), int(row.epochs)),
                row.split,
            ): Published(
                float(row.wasserstein_1_normalised), {"yes": True, "no": False}[row.uncertain], row.source, row.note
            )
            for row in table.itertuples()
        }
    except (AttributeError, KeyError, ValueError) as error:
        raise ArtifactError(f"{path} must have the columns {', '.join(COLUMNS)} ({error})") from None
    return figures


def is_papers_run(others: Mapping[str, Any]) -> bool:
    """Whether the parameters beside an ablation's factors and the seed are the paper's."""
    return all(key in others and others[key] == value for key, value in PAPER_SETTINGS.items())
