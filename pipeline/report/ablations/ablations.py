"""The ablations of the report: Tables 24 to 26, Figure 14 and their interactive figures, from the sweeps' cells."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import read_json
from pipeline.config.params import Params
from pipeline.core.prompts.structured import Prompt
from pipeline.record.provenance import split_sources
from pipeline.report.ablations import plots
from pipeline.report.ablations.cells import HARD_ABLATION, SOFT_GRANULARITY, Block, read_blocks
from pipeline.report.ablations.construction import (
    SWEEP,
    construction_plots,
    construction_records,
    construction_table,
)
from pipeline.report.ablations.figures import discretisation_overlays
from pipeline.report.ablations.published import PublishedFigures, read_published
from pipeline.report.ablations.tables import ablation_records, ablation_table, kl_table, published_only
from pipeline.report.figures.drawing import Drawing
from pipeline.report.page.plots import Plot
from pipeline.report.tables.table import ListTable

TITLE = "Ablation tables"
EXPLANATION = (
    "How fine the strings are that a model trains on, how many samples it sees, and what the strings cost to build. "
    "Each setting is trained with several seeds; a difference within seed noise is no finding. "
    "`make ablations` runs them at the demo's scale."
)
SOFT_CAPTION = "Table 25. Granularity of the soft-target method's strings"
HARD_CAPTION = "Table 26. Strings and sampling budget of the hard-target method"


@dataclass(frozen=True)
class Ablations:
    """What the sweeps have finished.

    Attributes:
        construction: Measurements of Table 24.
        soft: Cells of Table 25.
        hard: Cells of Table 26.
        published: Figures that the paper prints for Table 26.
    """

    construction: pd.DataFrame
    soft: list[Block]
    hard: list[Block]
    published: PublishedFigures

    @property
    def missing(self) -> list[str]:
        """The sweeps of which no cell is finished, with their tables."""
        found = {
            f"{SWEEP} (Table 24)": len(self.construction),
            f"{SOFT_GRANULARITY.sweep} (Table 25, Figure 14)": len(self.soft),
            f"{HARD_ABLATION.sweep} (Table 26)": len(self.hard),
        }
        return [name for name, number in found.items() if not number]

    def are_all_of(self, models: Collection[str]) -> bool:
        """Whether every trained cell is of one of the models."""
        return all(block.model in models for block in (*self.soft, *self.hard))

    @property
    def trained(self) -> list[str]:
        """Provenance files of the evaluations of Tables 25 and 26."""
        runs = [run for block in (*self.soft, *self.hard) for members in block.runs.values() for run in members]
        return list(dict.fromkeys(path for run in runs for path in run.evaluations.provenance))

    @property
    def provenance(self) -> dict[str, dict]:
        """Content of each provenance file of the cells by its path."""
        runs = [run for block in (*self.soft, *self.hard) for members in block.runs.values() for run in members]
        found = {path: content for run in runs for path, content in run.evaluations.provenance.items()}
        for paths in self.construction.get("provenance", ()):
            found |= {path: read_json(Path(path)) for path in split_sources(paths) if Path(path).exists()}
        return found


def read_ablations(sweeps: Path, published: Path) -> Ablations:
    """Read all finished cells of the three sweeps; a missing directory is an ablation that was not run.

    Args:
        sweeps: Directory of all sweeps.
        published: Directory of published figures, ``table26.csv``.

    Raises:
        ArtifactError: A finished cell is unreadable.
    """
    return Ablations(
        construction_records(sweeps),
        read_blocks(sweeps, SOFT_GRANULARITY),
        read_blocks(sweeps, HARD_ABLATION),
        read_published(published / "table26.csv"),
    )


def _hard_blocks(ablations: Ablations, config: Params) -> list[Block]:
    return [*ablations.hard, *published_only(list(config.models), ablations.hard, ablations.published)]


def ablation_tables(ablations: Ablations, config: Params) -> list[ListTable]:
    """Tables 24, 25 and 26, those of which there is anything to show."""
    tables = [
        construction_table(ablations.construction),
        ablation_table("table25", SOFT_CAPTION, SOFT_GRANULARITY, ablations.soft, config, {}),
        kl_table("table25_kl", f"{SOFT_CAPTION}: logit KL", SOFT_GRANULARITY, ablations.soft, config),
        ablation_table(
            "table26", HARD_CAPTION, HARD_ABLATION, _hard_blocks(ablations, config), config, ablations.published
        ),
        kl_table("table26_kl", f"{HARD_CAPTION}: logit KL", HARD_ABLATION, ablations.hard, config),
    ]
    return [table for table in tables if table is not None]


def ablation_figures(ablations: Ablations, config: Params, prompts: Sequence[Prompt]) -> dict[str, Drawing]:
    """Figure 14 by its file name, where there are cells.

    Args:
        ablations: What the sweeps have finished.
        config: The parameters, for display names.
        prompts: Structured prompts; those of the split "ood" are shown.
    """
    found = discretisation_overlays(ablations.soft, config, [prompt for prompt in prompts if prompt.split == "ood"])
    return {} if found is None else {"figure14": found}


def ablation_plots(ablations: Ablations, config: Params) -> list[Plot]:
    """The interactive figures, in the order of the tables."""
    soft = ablation_records(SOFT_GRANULARITY, ablations.soft, config, {})
    hard = ablation_records(HARD_ABLATION, ablations.hard, config, {})
    return [
        *construction_plots(ablations.construction),
        *plots.ablation_plots("table25", "Soft targets by string granularity", SOFT_GRANULARITY, soft),
        *plots.ablation_plots("table26", "Hard targets by strings and budget", HARD_ABLATION, hard),
    ]
