"""The metrics of Inv-Entropy."""

from functools import partial

from pipeline.axes.questions import WRONG, question_metric

_metric = partial(
    question_metric,
    direction="neither",
    source="arXiv:2506.09684",
    aggregate="mean over questions, of each over draws of one answer to each request",
    axis="inv_entropy",
)
_excess = partial(_metric, unit="nats", function="pipeline.axes.inv_entropy.evaluate:inverse_entropy", column="Excess")
_spread = partial(_metric, unit="dissimilarity", function="pipeline.axes.inv_entropy.evaluate:dispersion")
_area = partial(_metric, unit="probability", direction="higher", function="pipeline.axes.questions.answers:auroc")
EXCESS = "H(diagonal of P_y P_x) - H(u P_x), u uniform: what the answers add; 0 where they are all the same."
METRICS = (
    _excess("inv_excess_nats", "Excess of Inv-Entropy", EXCESS, headline=1),
    _spread("inv_input_dispersion", "Dispersion of the requests", "1 - mean similarity of two.", column="Requests"),
    _spread("inv_output_dispersion", "Dispersion of the answers", "1 - mean similarity of two.", column="Answers"),
    _area("inv_excess_nats_auroc", "AUROC of the excess", WRONG),
    _area("inv_input_dispersion_auroc", "AUROC of the requests", WRONG),
)
