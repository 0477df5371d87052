"""What the DAG of params.yaml has cost so far: ``python -m pipeline.runs.spent``, beside what ``make plan`` estimates.

Wall time, tokens and peak memory of every run that has left a record, by stage, model and condition; evaluations are of
all conditions. A record is of the last run of a stage, and of that run since it was last continued.
"""

import math
from pathlib import Path

import pandas as pd

from pipeline.artifacts.storage import atomic_path, read_json
from pipeline.command import run_command
from pipeline.config.conditions import conditions_on
from pipeline.config.params import Params, load_params
from pipeline.dag.declaration import fill
from pipeline.dag.graph import StageGraph, StageNode
from pipeline.dag.stage_kinds import evaluation_name
from pipeline.dag.stages import PIECES
from pipeline.dag.tables import template_names
from pipeline.estimates.cost import clock
from pipeline.estimates.prices import Prices
from pipeline.estimates.rates import Rates, read_rates
from pipeline.record.provenance import RECORD
from pipeline.runs.plan import parser_of

NOTE = """\
Wall time of the last run of each stage, from its start (+: some run was continued, from there) to its record. Tokens \
read: that the models of the process ran forward, prompts and padding included; of training on several GPUs, those of \
the first process; none where vLLM or a server ran the model. Tokens generated: of the whole table of answers. Memory: \
peak of the process, and on the GPU of its tensors, in 10^9 bytes. Planned: what `make plan` estimates for the same \
runs. {clock}"""


def record_paths(node: StageNode, params: Params) -> dict[str, Path]:
    """Where a run writes its record; an evaluation writes one for each condition, others one under the key ""."""
    if node.stage.records:
        return {"": Path(fill(node.stage.records, template_names(node.row, params)))}
    output, axis = Path(node.outputs[0]), node.stage.axis
    if node.stage.name == evaluation_name(axis):
        return {condition: output / condition / RECORD for condition in conditions_on(params, axis)}
    return {"": output / RECORD}


def spent_table(params: Params, project: Path, rates: Rates | None = None) -> pd.DataFrame:
    """One row per run that has left a record, in the DAG's order; memory is in 10^9 bytes.

    What a record does not tell (of an older version, or without a GPU) is NaN. ``rates`` are for the planned hours.
    Raises ArtifactError for an unreadable record.
    """
    prices, rows = Prices(params, project, rates), []
    for node in StageGraph(params, PIECES).values():
        written = [path for path in record_paths(node, params).values() if (project / path).is_file()]
        if not written:
            continue
        # The last one has all of the run's time.
        record = read_json(project / written[-1])
        processes = record.get("distributed", {}).get("num_processes", 1)
        rows.append(
            {
                "stage": node.stage.name,
                "model": node.model,
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


def _sum(values: pd.Series) -> float:
    # A sum of nothing but unknown numbers is unknown.
    return values.sum(min_count=1)


AGGREGATES = {"wall_seconds": "sum", "tokens_read": _sum, "tokens_generated": _sum, "peak_memory_gb": "max"}
AGGREGATES |= {"peak_gpu_memory_gb": "max", "planned_gpu_hours": "sum", "continued": "any"}


def summary(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Sums of time and tokens, and largest memory, of the rows that agree in some columns."""
    grouped = table.assign(runs=1).groupby(by, sort=False).agg({"runs": "sum", **AGGREGATES})
    return grouped.reset_index()


def _text(table: pd.DataFrame, by: list[str]) -> str:
    sums = summary(table, by)
    continued = sums.pop("continued").map({True: "+", False: ""})
    sums["wall_seconds"] = sums["wall_seconds"].map("{:,.1f}".format) + continued
    return sums.replace({"model": {"": "(shared)"}}).to_string(
        index=False,
        na_rep="-",
        formatters=dict.fromkeys(("tokens_read", "tokens_generated"), "{:,.0f}".format),
        float_format="{:.2f}".format,
    )


def main(params: Path, csv: Path | None, rates: Path | None = None) -> None:
    """Print the tables, and write one row per run to ``csv``; ``rates`` is a file of rates for the planned hours."""
    measured, config = rates and read_rates(rates), load_params(params)
    table = spent_table(config, params.resolve().parent, measured)
    if csv is not None:
        with atomic_path(csv) as temporary:
            table.to_csv(temporary, index=False)
    print(f"Experiment {config.experiment}: records of {len(table)} of {len(StageGraph(config))} runs\n")
    if table.empty:
        return
    print(f"{_text(table, ['stage', 'model', 'condition'])}\n\n{_text(table, ['stage'])}\n")
    print(f"{_text(table.assign(all='all'), ['all'])}\n\ndevices: {', '.join(table['device'].unique())}\n")
    print(NOTE.format(clock=clock(measured, rates)))


if __name__ == "__main__":
    run_command(main, parser_of(__doc__).parse_args())
