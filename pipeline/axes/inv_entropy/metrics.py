"""The metrics of Inv-Entropy."""

from functools import partial

from pipeline.metrics.metric import Metric

PAPER, CHAINS = "arXiv:2506.09684", "pipeline.axes.inv_entropy.chains"
_inverse = partial(
    Metric,
    axis="inv_entropy",
    n="questions",
    aggregate="mean over questions, of each over draws of one answer to each request",
    decimals=3,
    undefined="questions",
    source=PAPER,
    unit="nats",
    direction="neither",
    function=f"{CHAINS}:measures",
)
METRICS = (
    _inverse(
        name="inv_excess_nats",
        title="Excess of Inv-Entropy",
        definition="Inv-Entropy less that of identical answers: what the answers add; 0 where they are all the same.",
        formula_text="H(diagonal of P_y P_x) - H(u P_x), u uniform",
        source=f"{PAPER}; zero ours",
        headline=1,
        column="Excess",
    ),
    _inverse(
        name="inv_entropy_nats",
        title="Inv-Entropy",
        definition="Entropy of the diagonal of the chain from answers to prompts and back.",
        formula_text="- sum of c ln c over the diagonal c of P_y P_x",
        decimals=4,
    ),
    _inverse(
        name="inv_input_dispersion",
        title="Dispersion of the requests",
        definition="One less the mean similarity of two of the requests.",
        formula_text="1 - mean similarity of pairs",
        unit="dissimilarity",
        function=f"{CHAINS}:dispersion",
        column="Requests",
    ),
    _inverse(
        name="inv_output_dispersion",
        title="Dispersion of the answers",
        definition="One less the mean similarity of two answers to different requests.",
        formula_text="1 - mean similarity of pairs",
        unit="dissimilarity",
        function=f"{CHAINS}:dispersion",
        column="Answers",
    ),
    *(
        _inverse(
            name=f"inv_{name}_auroc",
            title=f"AUROC of {words} for wrong answers",
            definition=f"Probability that a question answered wrongly has {words} larger than one answered rightly.",
            formula_text="P(of wrong > of right) + P(equal) / 2",
            unit="probability",
            direction=direction,
            function="pipeline.axes.questions.discrimination:auroc",
            column=column,
        )
        for name, words, column, direction in (
            ("excess_nats", "the excess", "AUROC of the excess", "higher"),
            ("input_dispersion", "the requests' dispersion", "AUROC of the requests", "neither"),
        )
    ),
    _inverse(
        name="inv_tsu",
        title="TSU",
        definition="Share of questions whose excess rises strictly with the temperature. Floor: 1/m! for a measure "
        "that ignores the temperature.",
        formula_text="questions with u(T_1) < ... < u(T_m) / questions",
        unit="share of questions",
        direction="higher",
        function=f"{CHAINS}:rises_with_temperature",
    ),
)
