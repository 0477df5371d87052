"""The metrics of Inv-Entropy."""

from functools import partial

from pipeline.axes.metric import Metric

CHAINS, AREA = "pipeline.axes.inv_entropy.chains", "pipeline.axes.questions.discrimination:auroc"
_inverse = partial(
    Metric,
    formula_text="",
    n="questions",
    source="arXiv:2506.09684",
    aggregate="mean over questions, of each over draws of one answer to each request",
    axis="inv_entropy",
    decimals=3,
    undefined="questions",
)
_spread = partial(_inverse, unit="dissimilarity", direction="neither", function=f"{CHAINS}:dispersion")
_area = partial(_inverse, unit="probability", direction="higher", function=AREA)
EXCESS = "H(diagonal of P_y P_x) - H(u P_x), u uniform: what the answers add; 0 where they are all the same."
WRONG = "P(larger on a question answered wrongly than rightly), ties half; undefined with fewer than ten of either."
RISES = "Share of questions whose excess rises strictly with the temperature; floor: 1/m!, what ignores it scores."
METRICS = (
    _inverse(
        "inv_excess_nats",
        "Excess of Inv-Entropy",
        EXCESS,
        unit="nats",
        direction="neither",
        function=f"{CHAINS}:measures",
        headline=1,
        column="Excess",
    ),
    _spread("inv_input_dispersion", "Dispersion of the requests", "1 - mean similarity of two.", column="Requests"),
    _spread("inv_output_dispersion", "Dispersion of the answers", "1 - mean similarity of two.", column="Answers"),
    _area("inv_excess_nats_auroc", "AUROC of the excess", WRONG),
    _area("inv_input_dispersion_auroc", "AUROC of the requests", WRONG),
    _inverse("inv_tsu", "TSU", RISES, unit="share", direction="higher", function=f"{CHAINS}:rises_with_temperature"),
)
