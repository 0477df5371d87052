"""Table 24: time and memory of output spaces and tries by decimals and largest number of strings."""

from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.artifacts.storage import read_table
from pipeline.record.table_cell import join_sources, split_sources
from pipeline.report.ablations.cells import GRANULARITY, finished_cells
from pipeline.report.figures.drawing import FAMILY_COLORS
from pipeline.report.page.plots import Plot
from pipeline.report.tables.table import MISSING, ListTable

SWEEP = "construction_cost"
PARTS = {"output_space": "Output space", "trie": "Trie"}
REFERENCE = (5, 16384)
"""(decimals, most strings) of every evaluation."""
MEASURES = tuple(f"{part}_{measure}" for part in PARTS for measure in ("seconds", "peak_bytes"))


def construction_records(sweeps: Path) -> pd.DataFrame:
    """One row per tokenizer and setting that was measured.

    Columns: tokenizer, num_decimals, max_bins, prompts, and for ``output_space`` and ``trie`` the mean and largest
    seconds over prompts and the largest peak in bytes; paths of the provenance files.

    Raises:
        ArtifactError: A finished cell's table is unreadable.
    """
    measured: dict[tuple[str, int, int | None], list[tuple[pd.DataFrame, Path]]] = {}
    for directory, parameters in finished_cells(sweeps, SWEEP):
        for path in sorted(directory.glob("*/construction/*-soft/per_prompt.parquet")):
            setting = (parameters["discretize.soft.num_decimals"], parameters["discretize.soft.max_bins"])
            key = (path.parent.name.removesuffix("-soft"), *setting)
            measured.setdefault(key, []).append((read_table(path, ("prompt_id", *MEASURES)), path))
    rows = []
    for (tokenizer, num_decimals, max_bins), parts in measured.items():
        table = pd.concat([part for part, _ in parts], ignore_index=True)
        row: dict[str, Any] = {
            "tokenizer": tokenizer,
            "num_decimals": num_decimals,
            "max_bins": max_bins,
            "prompts": table["prompt_id"].nunique(),
        }
        for part in PARTS:
            row[f"{part}_mean_seconds"] = table[f"{part}_seconds"].mean()
            row[f"{part}_max_seconds"] = table[f"{part}_seconds"].max()
            row[f"{part}_peak_bytes"] = table[f"{part}_peak_bytes"].max()
        rows.append({**row, "provenance": join_sources(str(path.with_name("provenance.json")) for _, path in parts)})
    columns = ["tokenizer", "num_decimals", "max_bins"]
    return pd.DataFrame(rows).sort_values(columns, ignore_index=True) if rows else pd.DataFrame(columns=columns)


def construction_table(records: pd.DataFrame) -> ListTable | None:
    """Table 24; settings of the grid that were not measured say so. None where nothing was measured."""
    if records.empty:
        return None
    header = ["Tokenizer", "Decimals", "Most strings", "Prompts"]
    for title in PARTS.values():
        header += [f"{title}: mean time (ms)", f"{title}: largest peak (MB)"]
    rows = []
    for tokenizer, members in records.groupby("tokenizer", sort=False):
        found = {(row["num_decimals"], row["max_bins"]): row for row in members.to_dict("records")}
        settings = [*GRANULARITY, *sorted((item for item in found if item not in GRANULARITY), key=str)]
        rows += [_construction_row(str(tokenizer), setting, found.get(setting)) for setting in settings]
    return ListTable(
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


def _construction_row(tokenizer: str, setting: tuple[int, int | None], row: dict[str, Any] | None) -> list[str]:
    num_decimals, max_bins = setting
    strings = "all" if max_bins is None else f"{max_bins}{'*' if setting == REFERENCE else ''}"
    labels = [tokenizer, str(num_decimals), strings]
    if row is None:
        return [*labels, *[MISSING] * (1 + 2 * len(PARTS))]
    cells = [str(row["prompts"])]
    for part in PARTS:
        cells += [f"{row[f'{part}_mean_seconds'] * 1e3:.2f}", f"{row[f'{part}_peak_bytes'] / 1e6:.2f}"]
    return [*labels, *cells]


def construction_plots(records: pd.DataFrame) -> list[Plot]:
    """Mean time and largest peak over the largest number of strings, one line per number of decimals."""
    bounded = records.dropna(subset=["max_bins"]) if len(records) else records
    plots = []
    for tokenizer, members in bounded.groupby("tokenizer", sort=False) if len(bounded) else ():
        for suffix, unit, factor, title in (
            ("mean_seconds", "mean time per prompt (ms)", 1e3, "Time to build"),
            ("peak_bytes", "largest peak (MB)", 1e-6, "Memory to build"),
        ):
            traces = [
                _line(part, int(decimals), place, line, line[f"{part}_{suffix}"] * factor)
                for part in PARTS
                for place, (decimals, line) in enumerate(members.groupby("num_decimals"))
            ]
            ticks = sorted(int(value) for value in members["max_bins"].unique())
            layout = {
                "height": 300,
                "xaxis": {
                    "title": {"text": "most strings"},
                    "type": "log",
                    "tickvals": ticks,
                    "ticktext": [f"{value:,}" for value in ticks],
                },
                "yaxis": {"title": {"text": unit}, "type": "log", "dtick": "D2", "tickformat": ",~g"},
            }
            note = (
                f"Tokenizer {tokenizer}, {members['prompts'].max()} training prompts. Full: output space; dashed: "
                "trie. Both axes are logarithmic."
            )
            sources = [path for paths in members["provenance"] for path in split_sources(paths)]
            name = f"construction-{suffix.partition('_')[0]}-{tokenizer}"
            plots.append(Plot(name, title, {"data": traces, "layout": layout}, note, sources))
    return plots


def _line(part: str, num_decimals: int, place: int, line: pd.DataFrame, values: pd.Series) -> dict[str, Any]:
    color = FAMILY_COLORS[place % len(FAMILY_COLORS)]
    unit = "decimal" if num_decimals == 1 else "decimals"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{PARTS[part]}, {num_decimals} {unit}",
        "x": [int(value) for value in line["max_bins"]],
        "y": [float(value) for value in values],
        "line": {"color": color, "dash": "solid" if part == "output_space" else "dash"},
        "marker": {"color": color, "size": 7, "symbol": ("circle", "triangle-up", "square", "diamond")[place % 4]},
        "hovertemplate": "%{x:,} strings: %{y:.3g}<extra>%{fullData.name}</extra>",
    }
