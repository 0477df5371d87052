"""What the DAG of params.yaml will cost, and has cost: ``python -m pipeline.runs.costs plan`` and ``... spent``.

plan: estimated tokens and GPU hours by stage and by model, for all of it and for what is still to run; nothing is
loaded. spent: wall time, tokens and peak memory of every run that has left a record, by stage, model and condition.
"""

import math
from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import atomic_path, read_json
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.conditions import conditions_on
from pipeline.config.params import Params, load_params
from pipeline.dag.declaration import fill
from pipeline.dag.graph import StageGraph, StageNode, stages_out_of_date
from pipeline.dag.stage_kinds import evaluation_name
from pipeline.dag.stages import PIECES
from pipeline.dag.tables import template_names, why_off
from pipeline.estimates.cost import CLOCK
from pipeline.estimates.power import power_table
from pipeline.estimates.prices import Prices
from pipeline.record.provenance import RECORD
from pipeline.report.evaluations import read_evaluations

PLANNED = ["stages", "to_run", "tokens", "gpu_hours", "gpu_hours_to_run"]
POWER_NOTE = (
    "Smallest effects that the claims' tests find in 80% of such experiments (log10 where the contrast says so); mean "
    "of models: if they differ by chance alone."
)
SPENT_NOTE = """\
Wall time of the last run of each stage, from its start (+: some run was continued, from there) to its record. Tokens \
read: that the models of the process ran forward, prompts and padding included; of training on several GPUs, those of \
the first process; none where vLLM or a server ran the model. Tokens generated: of the whole table of answers. Memory: \
peak of the process, and on the GPU of its tensors, in 10^9 bytes. Planned: what `make plan` estimates for the same \
runs."""


def plan_table(graph: StageGraph, params: Params, to_run: set[str], prices: Prices) -> pd.DataFrame:
    """One row per kind of stage, or part of one, and model; what is in ``to_run`` is not done."""
    rows = []
    for node in graph.values():
        waits = node.name in to_run
        # What only says that its axis is off takes nothing.
        for stage, row in () if why_off(node.stage, params) else node.pieces:
            cost = stage.price(prices, row)
            tokens = cost.prompt_tokens + cost.completion_tokens
            numbers = (1, int(waits), tokens, cost.gpu_hours, cost.gpu_hours * waits)
            rows.append((stage.name, node.model or "(shared)", *numbers))
    table = pd.DataFrame(rows, columns=["stage", "model", *PLANNED])
    return table.groupby(["stage", "model"], sort=False, as_index=False).sum()


def plan(params: Path, csv: Path | None, all_stages: bool, recorded: Path) -> None:
    """Print the tables, and write the rows by stage and model to ``csv``; with ``all_stages``, without asking DVC. How
    much differences vary is taken from the evaluations in ``recorded``."""
    project, config = params.resolve().parent, load_params(params)
    graph, prices = StageGraph(config), Prices(config, project)
    to_run = set(graph) if all_stages else graph.downstream(stages_out_of_date(project) & set(graph))
    table = plan_table(graph, config, to_run, prices)
    _write(table, csv)
    print(f"Experiment {config.experiment}: {len(graph)} stages, {len(to_run)} of them to run or to check; by part:\n")
    formats = {"stages": "{:.0f}".format, "to_run": "{:.0f}".format, "tokens": "{:.3g}".format}
    for by in ("stage", "model"):
        grouped = table.groupby(by, sort=False)[PLANNED].sum()
        grouped.loc["total"] = grouped.sum()
        print(grouped.to_string(formatters=formats, float_format="{:.2f}".format) + "\n")
    memory = ", ".join(f"{model} {prices.training_memory(model) / 1e9:.1f}" for model in config.models)
    print(f"Memory of a GPU that trains by itself, GB: {memory}\n\nEstimates. {CLOCK}")
    if flash := [name for name, model in config.models.items() if model.attention == "flash_attention_2"]:
        print(f"flash_attention_2 takes no mask of a token tree: {', '.join(flash)} has a row for each path.")
    if not (evaluations := project / recorded / "evals").is_dir():
        return print(f"\nNo effects are estimated: {evaluations} does not exist (--recorded)")
    effects = power_table(read_evaluations(evaluations), config, prices)
    print(f"\n{POWER_NOTE} As varied as in {recorded}:\n")
    print(effects.to_string(index=False, float_format="{:.3f}".format))


def record_paths(node: StageNode, params: Params) -> list[Path]:
    """Where a run writes its records: an evaluation one for each condition, others a single one."""
    if node.stage.records:
        return [Path(fill(node.stage.records, template_names(node.row, params)))]
    output, axis = Path(node.outputs[0]), node.stage.axis
    if node.stage.name == evaluation_name(axis):
        return [output / condition / RECORD for condition in conditions_on(params, axis)]
    return [output / RECORD]


def spent_table(params: Params, project: Path) -> pd.DataFrame:
    """One row per run that has left a record; what that does not tell is NaN. Raises ArtifactError for a broken one."""
    prices, rows = Prices(params, project), []
    for name, node in StageGraph(params, PIECES).items():
        written = [path for path in record_paths(node, params) if (project / path).is_file()]
        # What is off leaves a record that says so, and no cost.
        if not written or why_off(node.stage, params):
            continue
        # The last one has all of the run's time.
        record = read_json(project / written[-1])
        processes = record.get("distributed", {}).get("num_processes", 1)
        rows.append(
            {
                "run": name,
                "stage": node.stage.name,
                "model": node.model or "(shared)",
                "condition": node.row.get("condition", ""),
                "wall_seconds": record["wall_time_seconds"],
                "tokens_read": record.get("tokens_read", math.nan),
                "tokens_generated": record.get("num_generated_tokens", math.nan),
                "peak_memory_gb": (record.get("peak_memory_bytes") or math.nan) / 1e9,
                "peak_gpu_memory_gb": (record.get("peak_gpu_memory_bytes") or math.nan) / 1e9,
                "device": f"{processes} x {record['device']}" if processes > 1 else record["device"],
                "continued": record.get("continued", False),
                "planned_gpu_hours": node.cost(prices).gpu_hours,
                "record": str(written[-1]),
            }
        )
    return pd.DataFrame(rows)


def summary(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Sums of time and tokens, and largest memory, of the rows that agree in some columns."""
    known_sum = partial(pd.Series.sum, min_count=1)
    aggregates = {"runs": "sum", "wall_seconds": "sum", "tokens_read": known_sum, "tokens_generated": known_sum}
    aggregates |= dict.fromkeys(("peak_memory_gb", "peak_gpu_memory_gb"), "max")
    aggregates |= {"planned_gpu_hours": "sum", "continued": "any"}
    return table.assign(runs=1).groupby(by, sort=False).agg(aggregates).reset_index()


def spent(params: Path, csv: Path | None) -> None:
    """Print the tables, and write one row per run to ``csv``."""
    config = load_params(params)
    table = spent_table(config, params.resolve().parent)
    _write(table, csv)
    graph = StageGraph(config, PIECES)
    done = set() if table.empty else set(table["run"])
    missing = [name for name, node in graph.items() if name not in done and not why_off(node.stage, config)]
    print(f"Experiment {config.experiment}: records of {len(table)} runs; {len(missing)} have none\n")
    if missing:
        print(f"without a record: {', '.join(missing)}\n")
    if table.empty:
        return
    for by in (["stage", "model", "condition"], ["stage"], ["all"]):
        sums = summary(table.assign(all="all"), by)
        continued = sums.pop("continued").map({True: "+", False: ""})
        sums["wall_seconds"] = sums["wall_seconds"].map("{:,.1f}".format) + continued
        counts = dict.fromkeys(("tokens_read", "tokens_generated"), "{:,.0f}".format)
        print(sums.to_string(index=False, na_rep="-", formatters=counts, float_format="{:.2f}".format) + "\n")
    print(f"devices: {', '.join(table['device'].unique())}\n\n{SPENT_NOTE} {CLOCK}")


def _write(table: pd.DataFrame, csv: Path | None) -> None:
    if csv is not None:
        with atomic_path(csv) as temporary:
            table.to_csv(temporary, index=False)


def main(command: str, params: Path, csv: Path | None, all_stages: bool, recorded: Path) -> None:
    if command == "plan":
        plan(params, csv, all_stages, recorded)
    else:
        spent(params, csv)


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.runs.costs"))
