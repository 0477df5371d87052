"""The metrics of Inv-Entropy."""

from functools import partial

from pipeline.axes.metric import Metric

EVALUATE = "pipeline.axes.inv_entropy.evaluate"
_metric = partial(
    Metric,
    formula_text="",
    direction="neither",
    n="questions",
    source="arXiv:2506.09684",
    aggregate="mean over questions, of each over draws of one answer to each request",
    axis="inv_entropy",
    decimals=3,
    undefined="questions",
)
_excess = partial(_metric, unit="nats", function=f"{EVALUATE}:inverse_entropy", column="Excess")
_spread = partial(_metric, unit="dissimilarity", function=f"{EVALUATE}:dispersion")
_area = partial(_metric, unit="probability", direction="higher", function="pipeline.axes.questions.answers:auroc")
EXCESS = "H(diagonal of P_y P_x) - H(u P_x), u uniform: what the answers add; 0 where they are all the same."
WRONG = "P(larger on a question answered wrongly than rightly), ties half; undefined with fewer than ten of either."
METRICS = (
    _excess("inv_excess_nats", "Excess of Inv-Entropy", EXCESS, headline=1),
    _spread("inv_input_dispersion", "Dispersion of the requests", "1 - mean similarity of two.", column="Requests"),
    _spread("inv_output_dispersion", "Dispersion of the answers", "1 - mean similarity of two.", column="Answers"),
    _area("inv_excess_nats_auroc", "AUROC of the excess", WRONG),
    _area("inv_input_dispersion_auroc", "AUROC of the requests", WRONG),
)
