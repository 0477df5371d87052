"""Tables 6 and 7 of the paper as CSV, Markdown and LaTeX."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.config import CONDITIONS

MISSING = "not run"
DASH = "—"


@dataclass(frozen=True)
class Measure:
    """A metric as a group of columns, one per condition."""

    metric: str
    title: str
    decimals: int
    lower_is_better: bool


STRUCTURED = (
    Measure("wasserstein_1_normalised", "W1 (normalised)", 4, True),
    Measure("logit_kl_nats", "Logit KL (nats)", 3, True),
    Measure("valid_rate", "Valid rate", 3, False),
)


EXACT = (
    Measure("wasserstein_1_window_normalised", "W1 in the window, sampled", 4, True),
    Measure("exact_wasserstein_1_normalised", "W1 in the window, computed", 4, True),
    Measure("valid_rate", "Valid rate, sampled", 3, False),
    Measure("exact_support_rate", "In the support, computed", 3, False),
    Measure("logit_kl_rounded_law_nats", "Logit KL, every decimal (nats)", 3, True),
)
"""The model's exact law beside what sampling says of it."""


@dataclass(frozen=True)
class Table:
    """A table with one row per model and the cells of each measure under each condition.

    ``cells[model][measure.metric, condition]`` is a row of the metrics table, or None
    where that evaluation does not exist.
    """

    name: str
    caption: str
    models: Mapping[str, str]
    measures: Sequence[Measure]
    cells: Mapping[str, Mapping[tuple[str, str], pd.Series | None]]

    @property
    def missing(self) -> list[str]:
        """Evaluations that the table lacks, as "model condition"."""
        return sorted({f"{m} {key[1]}" for m, row in self.cells.items() for key, cell in row.items() if cell is None})


def structured_table(
    name: str,
    caption: str,
    metrics: pd.DataFrame,
    split: str,
    models: Mapping[str, str],
    measures: Sequence[Measure] = STRUCTURED,
) -> Table:
    """Select the aggregate rows of one split.

    Args:
        name: File name without suffix.
        caption: What the table shows.
        metrics: The tidy metrics table.
        split: "ood" or "unseen".
        models: Model name -> display name, in row order.
        measures: Column groups.
    """
    chosen = metrics[(metrics["axis"] == "structured") & (metrics["split"] == split) & (metrics["family"] == "")]
    indexed = chosen.set_index(["model", "condition", "metric"])
    cells = {
        model: {
            (measure.metric, condition): (
                indexed.loc[(model, condition, measure.metric)]
                if (model, condition, measure.metric) in indexed.index
                else None
            )
            for measure in measures
            for condition in CONDITIONS
        }
        for model in models
    }
    return Table(name, caption, models, measures, cells)


def _value(cell: pd.Series | None) -> float:
    return math.nan if cell is None else float(cell["value"])


def _best(table: Table, model: str, measure: Measure) -> float:
    values = [_value(table.cells[model][measure.metric, condition]) for condition in CONDITIONS]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan
    return min(finite) if measure.lower_is_better else max(finite)


def to_frame(table: Table) -> pd.DataFrame:
    """Full precision: one row per model and measure and condition, with n, interval and floor."""
    rows = []
    for model, display_name in table.models.items():
        for measure in table.measures:
            for condition in CONDITIONS:
                cell = table.cells[model][measure.metric, condition]
                row = {"model": model, "display_name": display_name, "metric": measure.metric, "condition": condition}
                row["status"] = MISSING if cell is None else "ok" if math.isfinite(_value(cell)) else "undefined"
                for column in ("value", "n", "ci_low", "ci_high", "floor", "undefined", "provenance"):
                    row[column] = None if cell is None else cell[column]
                rows.append(row)
    return pd.DataFrame(rows)


def _interval(cell: pd.Series, decimals: int) -> str:
    if not math.isfinite(cell["ci_low"]):
        return ""
    return f"[{cell['ci_low']:.{decimals}f}, {cell['ci_high']:.{decimals}f}]"


def to_markdown(table: Table) -> str:
    """A Markdown table with 95% intervals under the values and the floors in a note."""
    header = ["Model", *(f"{m.title} {condition}" for m in table.measures for condition in CONDITIONS)]
    rows = []
    for model, display_name in table.models.items():
        row = [display_name]
        for measure in table.measures:
            for condition in CONDITIONS:
                cell = table.cells[model][measure.metric, condition]
                if cell is None:
                    row.append(MISSING)
                elif not math.isfinite(_value(cell)):
                    row.append(f"{DASH} ({int(cell['undefined'])} families undefined)")
                else:
                    text = f"{_value(cell):.{measure.decimals}f}"
                    text = f"**{text}**" if _value(cell) == _best(table, model, measure) else text
                    row.append(f"{text} {_interval(cell, measure.decimals)}".strip())
        rows.append(row)
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return f"{table.caption}\n\n" + "\n".join(lines) + f"\n\n{note(table)}\n"


def note(table: Table) -> str:
    """Sample sizes, floors and what the intervals are."""
    missing = f" Not run: {', '.join(table.missing)}." if table.missing else ""
    if table.measures == EXACT:
        return (
            "Computed: from the model's probabilities of digit prefixes, without sampling and with tokens that no "
            "plain decimal has left out. The middle of certified bounds; their ends are the metrics with _low and "
            "_high in metrics.csv. W1 here has samples and law clipped to the window between the target's 0.001 and "
            "0.999 quantiles, as the paper's grid does. "
            f"Brackets: 95% bootstrap intervals over families and prompts.{missing}"
        )
    present = [
        cell
        for row in table.cells.values()
        for (m, _), cell in row.items()
        if cell is not None and m == "wasserstein_1_normalised"
    ]
    sizes = sorted({int(cell["n"]) for cell in present})
    floors = sorted({f"{cell['floor']:.4f}" for cell in present})
    size = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0]) if sizes else "no"
    text = (
        f"W1 from {size} valid generations per cell; a perfect sampler scores {', '.join(floors) or 'n/a'} "
        "at this sample size. Brackets: 95% bootstrap intervals over families and prompts. Bold: best of the row. "
        f"{DASH}: undefined, because at least one family has no valid generation."
    )
    return text + missing


def to_latex(table: Table) -> str:
    """A booktabs table; bold best, dashes where undefined."""
    groups = len(table.measures)
    columns = "l" + "ccc" * groups
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_escape(table.caption)}}}", rf"\label{{tab:{table.name}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines.append(" & ".join(["", *(rf"\multicolumn{{3}}{{c}}{{{_escape(m.title)}}}" for m in table.measures)]) + r" \\")
    rules = [rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(groups)]
    lines.append(" ".join(rules))
    lines.append(
        " & ".join(["Model", *(condition.capitalize() for _ in table.measures for condition in CONDITIONS)]) + r" \\"
    )
    lines.append(r"\midrule")
    for model, display_name in table.models.items():
        row = [_escape(display_name)]
        for measure in table.measures:
            for condition in CONDITIONS:
                value = _value(table.cells[model][measure.metric, condition])
                text = f"{value:.{measure.decimals}f}" if math.isfinite(value) else "---"
                bold = math.isfinite(value) and value == _best(table, model, measure)
                row.append(rf"\textbf{{{text}}}" if bold else text)
        lines.append(" & ".join(row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\par\smallskip\footnotesize {_escape(note(table))}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    for plain, latex in (
        ("\\", r"\textbackslash "),
        ("&", r"\&"),
        ("%", r"\%"),
        ("_", r"\_"),
        ("#", r"\#"),
        (DASH, "---"),
    ):
        text = text.replace(plain, latex)
    return text
