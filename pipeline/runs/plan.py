"""Price the DAG of params.yaml before anything is spent: ``python -m pipeline.runs.plan``.

Tokens, GPU hours and disk by stage and by model, for all of it and for what is still to run. Nothing is loaded and no
model is needed. The figures are estimates, good to a factor of two; ``pipeline/estimates/cost.py`` says what they rest
on. Hours are of an A100 and the paper's own code, or of a device that was measured (``--rates FILE``, which
``make gpu-check`` writes).
"""

import argparse
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import atomic_path
from pipeline.command import run_command
from pipeline.config.params import Params, load_params
from pipeline.config.retention import is_local_path
from pipeline.dag.graph import StageGraph, stages_out_of_date
from pipeline.dag.tables import is_off
from pipeline.estimates.cost import clock
from pipeline.estimates.prices import CLASSIFIER_PARAMETERS, REWARD_PARAMETERS, Prices
from pipeline.estimates.rates import read_rates

SUMMED = ("stages", "to_run", "tokens", "gpu_hours", "gpu_hours_to_run", "disk_gb")
NOTE = "Estimates. {clock} Disk counts outputs once; DVC's cache doubles it where the file system has no reflinks."


def checkpoint_bytes(params: Params) -> float:
    """Size of the hub's checkpoints that the DAG loads, two bytes for each weight, NoveltyBench's included."""
    novelty, judge = params.evaluate.novelty, params.selfreflect and params.selfreflect.judge
    models = [*params.models.values(), *([judge] if judge and "selfreflect" in params.axes else [])]
    sizes = [model.num_parameters for model in models if not is_local_path(model.checkpoint)]
    if "novelty" in params.axes:
        sizes += [CLASSIFIER_PARAMETERS] if novelty.classifier.kind == "deberta" else []
        sizes += [REWARD_PARAMETERS] if novelty.reward.kind == "skywork" else []
    return 2.0 * sum(sizes)


def price_table(graph: StageGraph, params: Params, to_run: set[str], prices: Prices) -> pd.DataFrame:
    """One row per kind of stage, or per part of a stage of several, and model (empty where models share it).

    Stages whose names are in ``to_run`` are not done; tokens are of prompts and completions, disk_gb 10^9 bytes.
    """
    rows = []
    for node in graph.values():
        waits = node.name in to_run
        # What only says that its axis is off takes nothing.
        for stage, row in () if is_off(node.stage, params) else node.pieces:
            cost = stage.price(prices, row)
            tokens = cost.prompt_tokens + cost.completion_tokens
            numbers = (1, int(waits), tokens, cost.gpu_hours, cost.gpu_hours * waits, cost.disk_bytes / 1e9)
            rows.append((stage.name, node.model, *numbers))
    table = pd.DataFrame(rows, columns=["stage", "model", *SUMMED])
    return table.groupby(["stage", "model"], sort=False, as_index=False).sum()


def _text(table: pd.DataFrame, by: str) -> str:
    grouped = table.groupby(by, sort=False)[list(SUMMED)].sum()
    grouped.loc["total"] = grouped.sum()
    return grouped.rename(index={"": "(shared)"}).to_string(
        formatters={"stages": "{:.0f}".format, "to_run": "{:.0f}".format, "tokens": "{:.3g}".format},
        float_format="{:.2f}".format,
    )


def main(params: Path, csv: Path | None, all_stages: bool, rates: Path | None = None) -> None:
    """Print the tables, and write the rows by stage and model to ``csv``; with ``all_stages``, without asking DVC.

    Raises ArtifactError where there is no such file of rates, and ConfigError for what is not allowed in it.
    """
    measured, project, config = rates and read_rates(rates), params.resolve().parent, load_params(params)
    graph, prices = StageGraph(config), Prices(config, project, measured)
    to_run = set(graph) if all_stages else graph.downstream(stages_out_of_date(project) & set(graph))
    table = price_table(graph, config, to_run, prices)
    if csv is not None:
        with atomic_path(csv) as temporary:
            table.to_csv(temporary, index=False)
    off = [axis for axis in config.possible_axes if axis not in config.axes]
    without = f", without {', '.join(off)} (axes)" if off else ""
    counted = f"{len(graph)} stages, {len(to_run)} of them to run or to check"
    print(f"Experiment {config.experiment}{without}: {counted}; by part:\n")
    print(f"{_text(table, 'stage')}\n\n{_text(table, 'model')}\n")
    memory = ", ".join(f"{model} {prices.training_memory(model) / 1e9:.1f}" for model in config.models)
    print(f"Memory of a GPU that trains by itself, GB: {memory}")
    print(f"Checkpoints from the hub: {checkpoint_bytes(config) / 1e9:.0f} GB\n")
    print(NOTE.format(clock=clock(measured, rates)))


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options that plan and spent have in common."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="default: %(default)s")
    parser.add_argument("--csv", type=Path, help="file for the rows")
    parser.add_argument(
        "--rates", type=Path, help="file of rates of a device (make gpu-check); default: the paper's code on an A100"
    )
    return parser


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--all", dest="all_stages", action="store_true", help="price everything, whatever DVC says is done"
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
