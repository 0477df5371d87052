"""Tables 6 to 9, calibration and the exact law."""

from pipeline.axes.structured.tables import structured_tables
from tests.report.conftest import context_of, metric_row, params_of, texts

PARAMS = params_of(["a"])


def rows_of(condition, level, n, floor):
    """Rows whose numbers are all unlike; on unseen parameters twice as far off."""
    rows = []
    for split, factor in {"ood": 1.0, "unseen": 2.0}.items():
        names, distance = ("structured", "a", condition, split), level * factor
        rows += [
            metric_row(*names, "wasserstein_1_normalised", distance, n=n - 5, floor=floor * factor),
            metric_row(*names, "pit_wasserstein_1_all_answers", distance / 2, n=n, floor=floor * factor),
            metric_row(*names, "pit_wasserstein_1", distance / 4, n=n - 5),
            metric_row(*names, "valid_rate", 1 - distance / 8, n=n),
        ]
        if condition != "ssot":
            rows.append(metric_row(*names, "logit_kl_nats", 5 * distance, n=6))
    return rows


BASE, SOFT = rows_of("base", 0.4, 1000, 0.012), rows_of("soft", 0.1, 1000, 0.011)
SSOT = rows_of("ssot", 0.2, 250, 0.023)


def tables(*rows):
    return {
        table.name: table
        for table in structured_tables(context_of(PARAMS, [row for part in rows for row in part]))
        if table is not None
    }


def test_tables_of_the_paper_show_each_conditions_own_floor():
    found = tables(BASE, SOFT, SSOT)
    assert list(found) == ["table6", "table7", "calibration", "table8", "table9"]
    eighth, seventh, calibration = (texts(found[name]) for name in ("table8", "table7", "calibration"))
    assert list(eighth) == [("A", condition) for condition in ("base", "soft", "ssot")]
    assert eighth["A", "ssot"] == ["0.2000 [0.1900, 0.2100]", "8.7 (0.023)", "0.975 [0.965, 0.985]", "250"]
    assert ("A", "ssot") not in seventh and seventh["A", "hard"] == ["not run"] * 5
    assert seventh["A", "soft"] == [
        *("0.2000 [0.1900, 0.2100]", "9.1 (0.022)", "1.000 [0.990, 1.010]", "0.975 [0.965, 0.985]", "1,000")
    ]
    assert calibration["A", "base", "OOD"] == [
        *("1,000", "995", "0.2000 [0.1900, 0.2100]", "16.7 (0.012)"),
        # Without a perfect sampler there is no ratio.
        *("0.1000 [0.0900, 0.1100]", "—"),
    ]
    assert ("A", "ssot", "unseen") in calibration


def test_ssot_and_exact_laws_have_tables_where_they_were_evaluated():
    exact = metric_row("structured", "a", "base", "ood", "exact_support_rate", 0.7)
    assert list(tables(BASE, [exact])) == ["table6", "table7", "calibration", "exact"]
    assert tables([metric_row("mcq", "a", "base", "mcq", "mcq_parse_rate", 0.5)]) == {}
