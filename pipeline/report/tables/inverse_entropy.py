"""Tables of answers to perturbed questions: Inv-Entropy beside the dispersions, TSU beside its null, by setting."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.metrics.inverse_entropy import MEASURES
from pipeline.report.tables.answers import QUESTIONS, by_setting, differences_table
from pipeline.report.tables.table import Table, detailed_table, measure_of

_MEANS = (
    *("inv_entropy_nats", "inv_entropy_excess_nats", "inv_input_dispersion", "inv_output_dispersion"),
    *("inv_ni_entropy_nats", "inv_max_probability", "inv_wasserstein"),
)
_CHANGES = {
    "inv_entropy_excess_nats": "Excess (nats)",
    "inv_output_dispersion": "Dispersion of answers",
    "inv_entropy_tsu": "TSU",
    "inv_entropy_auroc": "AUROC",
}


def inverse_entropy_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """Inv-Entropy and the dispersions, TSU and AUROC by measure, changes from base, by setting; those that exist."""
    means = (
        "Excess: Inv-Entropy less ln(n + 1), its value for answers that are all the same, and for requests that are, "
        "whatever the answers; so it is to be read beside the dispersions, one less the mean similarity of two "
        f"requests or answers. {QUESTIONS}"
    )
    scored = (
        "TSU: share of questions on which the measure rises strictly with the temperature; by chance: that of a "
        f"measure that ignores it. AUROC: for wrong answers, where right ones are known. {QUESTIONS} Bold: best "
        "condition of the model."
    )
    measures = [
        measure_of("inv_entropy_tsu", title="TSU by chance", field="floor", bold=False),
        *(measure_of(f"{name}_{figure}") for figure in ("tsu", "auroc") for name in MEASURES),
    ]
    changes = [measure_of(f"{name}_difference", title=title) for name, title in _CHANGES.items()]
    shown = [measure_of(name) for name in ("inv_entropy_excess_nats", "inv_output_dispersion")]
    own = metrics, models
    tables = (
        detailed_table("inv_entropy", "Inv-Entropy", means, *own, [measure_of(name) for name in _MEANS], conditions),
        detailed_table(
            "inv_entropy_scores", "Inv-Entropy: temperature, and right and wrong", scored, *own, measures, conditions
        ),
        differences_table("inv_entropy", "Inv-Entropy", *own, changes, conditions),
        by_setting(
            "inv_entropy_by_setting", "Inv-Entropy by decoding setting", "perturbations", *own, shown, *conditions
        ),
    )
    return [table for table in tables if table is not None]
