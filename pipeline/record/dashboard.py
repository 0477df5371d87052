"""A W&B workspace as code: what to look at in the project, grouped by experiment, model and condition.

A new view is saved each time, for the team WANDB_ENTITY, if that is set.
"""

import os
from pathlib import Path
from typing import Any

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES
from pipeline.command import run_command
from pipeline.config.conditions import conditions_on
from pipeline.config.params import Params, load_params
from pipeline.errors import ConfigError, PipelineError, first_line
from pipeline.record.tracking import has_credentials

METRICS = {
    axis: tuple(f"{split}/{metric}" for metric in metrics for split in AXES[axis].splits)
    for axis, metrics in HEADLINES.items()
}
"""Headline results of evaluations (SPLIT/METRIC) by axis, each a section of the workspace."""
TRAINING_CURVES = ("train/loss", "train/grad_norm", "train/learning_rate", "train/tokens_per_second")
FIGURES = tuple(f"figure{number}" for number in range(2, 15))


def build_workspace(entity: str, config: Params) -> Any:
    """The workspace of an entity's project, not saved, with bars for the conditions that each axis has.

    Raises ConfigError where the package is not installed.
    """
    try:
        import wandb_workspaces.reports.v2 as panels
        import wandb_workspaces.workspaces as workspaces
    except ImportError:
        raise ConfigError("wandb-workspaces is not installed; `pip install -r requirements.txt` installs it") from None

    def bars(axis: str, metric: str) -> Any:
        # For each group of the list of runs: a mean over models would say nothing.
        of_conditions = [f"{condition}/{metric}" for condition in conditions_on(config, axis)]
        return panels.BarPlot(title=metric, metrics=of_conditions, orientation="v")

    shown = {AXES[axis].title: [bars(axis, metric) for metric in metrics] for axis, metrics in METRICS.items()}
    shown["Training"] = [panels.LinePlot(title=curve, x="Step", y=[curve]) for curve in TRAINING_CURVES]
    shown["Report"] = [panels.MediaBrowser(media_keys=[name]) for name in FIGURES]
    grouping = [workspaces.Metric("Group"), workspaces.Config("model"), workspaces.Config("condition")]
    return workspaces.Workspace(
        entity=entity,
        project=config.tracking.project,
        name="Calibration Fine-Tuning",
        sections=[
            workspaces.Section(name=name, panels=own, is_open=name == AXES["structured"].title)
            for name, own in shown.items()
        ],
        runset_settings=workspaces.RunsetSettings(groupby=grouping),
    )


def main(params: Path = Path("params.yaml")) -> None:
    """Save the workspace and print its address. Raises ConfigError without credentials or a server."""
    config = load_params(params)
    if not has_credentials():
        raise ConfigError("a workspace lives on a W&B server; set WANDB_API_KEY or run `wandb login`")
    import wandb

    try:
        workspace = build_workspace(os.environ.get("WANDB_ENTITY") or wandb.Api(timeout=30).default_entity, config)
        workspace.save()
    except PipelineError:
        raise
    # The client's errors have no common type: network, authentication and GraphQL raise each their own.
    except Exception as error:
        raise ConfigError(f"the workspace was not saved ({first_line(error)})") from None
    print(workspace.url)


if __name__ == "__main__":
    run_command(main, kept=None)
