"""The metrics of answers to perturbed questions: Inv-Entropy, its relatives, and their sensitivity to temperature."""

from functools import partial

from pipeline.metrics.answers import CHANGE, DISCRIMINATION, SETTINGS
from pipeline.metrics.metric import OURS, Metric

CORE = "pipeline.core.semantics.inverse_entropy"
_inverse = partial(
    Metric,
    axis="inv_entropy",
    n="questions",
    unit="nats",
    direction="neither",
    source="arXiv:2506.09684",
    aggregate=f"mean over questions; {SETTINGS}",
    decimals=3,
    undefined="questions",
    function=f"{CORE}:measures",
)
MEASURES = {
    "inv_entropy": "Inv-Entropy",
    "inv_ni_entropy": "NI-Entropy",
    "inv_max_probability": "MAX",
    "inv_wasserstein": "WD",
}
"""Short names of the measures of uncertainty."""
INVERSE_ENTROPY = (
    _inverse(
        name="inv_entropy_nats",
        title="Inv-Entropy",
        definition="Entropy of the walk from one answer per request back to the requests, by the similarities of "
        "answers and of requests; mean over draws of the answers. It is ln(n + 1) where all answers are the same, and "
        "where all requests are, whatever the answers.",
        formula_text="- sum of c ln c, c = diagonal of P(answers) P(requests)",
        column="Inv-Entropy (nats)",
    ),
    _inverse(
        name="inv_entropy_excess_nats",
        title="Inv-Entropy, excess",
        definition="Inv-Entropy less ln(n + 1), n being the question's perturbations. Read it beside the dispersions: "
        "requests that are nearly the same leave next to nothing of it.",
        formula_text="Inv-Entropy - ln(n + 1)",
        source=OURS,
        function=f"{CORE}:mean_measures",
        column="Excess (nats)",
        headline=1,
    ),
    _inverse(
        name="inv_ni_entropy_nats",
        title="NI-Entropy",
        definition="The same of the walk from requests to answers.",
        formula_text="- sum of c ln c, c = diagonal of P(requests) P(answers)",
        column="NI-Entropy (nats)",
    ),
    _inverse(
        name="inv_max_probability",
        title="MAX: largest probability of a request's own answer",
        definition="Largest probability with which the walk from a request ends at its own answer; it grows "
        "where all answers differ alike, and may fall where only some do.",
        formula_text="max of the diagonal of P(requests) P(answers)",
        unit="probability",
        column="MAX",
    ),
    _inverse(
        name="inv_wasserstein",
        title="WD: distance of the requests' law from the answers'",
        definition="Wasserstein distance between the laws of the two walks after one step from a uniform start. States "
        "have no order: any two are 1 apart.",
        formula_text="1/2 sum over states of |P(X) - P(Y)|",
        unit="probability",
        column="WD",
    ),
    _inverse(
        name="inv_input_dispersion",
        title="Dispersion of requests",
        definition="One less the mean similarity of two requests, the question and its perturbations.",
        formula_text="1 - mean of (1 + cos) / 2 over pairs of requests",
        unit="1",
        function=f"{CORE}:dispersion",
    ),
    _inverse(
        name="inv_output_dispersion",
        title="Dispersion of answers to perturbed questions",
        definition="One less the mean similarity of the answers to two requests.",
        formula_text="1 - mean of (1 + cos) / 2 over pairs of answers",
        unit="1",
        function=f"{CORE}:dispersion",
        column="Dispersion of answers",
    ),
    *(
        _inverse(
            name=f"{name}_difference",
            title=f"{title}, change",
            definition=CHANGE.format(title[0].lower() + title[1:] if name == "inv_output_dispersion" else title),
            formula_text="own - base, on the same questions",
            unit=unit,
            source=OURS,
            function="pipeline.core.semantics.inverse_entropy_metrics:metric_rows",
        )
        for name, title, unit in (
            ("inv_entropy_excess_nats", "Inv-Entropy, excess", "nats"),
            ("inv_output_dispersion", "Dispersion of answers to perturbed questions", "1"),
            ("inv_entropy_tsu", "TSU of Inv-Entropy", "share of questions"),
        )
    ),
    *(
        _inverse(
            name=f"{name}_tsu",
            title=f"TSU of {short}",
            definition=f"Share of questions on which {short} rises strictly "
            "with the temperature of the answers. The floor is 1 / m! for m temperatures: that of a measure that "
            "ignores them.",
            formula_text="questions with U(T_1) < ... < U(T_m) / questions",
            unit="share of questions",
            direction="higher",
            aggregate="over all questions; the decoding settings that differ in temperature alone",
            function=f"{CORE}:rises_with_temperature",
            column=f"TSU, {short}",
            headline=2 if name == "inv_entropy" else 0,
        )
        for name, short in MEASURES.items()
    ),
    *(
        metric
        for name, short in MEASURES.items()
        for metric in (
            _inverse(
                name=f"{name}_auroc",
                title=f"AUROC of {short}",
                definition=f"AUROC of {short} for questions whose most "
                "frequent class of answers is wrong; the excess over ln(n + 1) is taken of Inv-Entropy."
                if name == "inv_entropy"
                else f"AUROC of {short} for questions whose most frequent class of answers is wrong.",
                formula_text="P(measure of a wrong answer > that of a right one), ties one half",
                unit="1",
                direction="higher",
                aggregate="over questions with accepted answers; default decoding setting",
                undefined="value",
                function=f"{DISCRIMINATION}:auroc",
                column=f"AUROC, {short}",
            ),
            _inverse(
                name=f"{name}_auroc_difference",
                title=f"AUROC of {short}, change",
                definition=CHANGE.format(f"the AUROC of {short}"),
                formula_text="own - base, on the same questions",
                unit="1",
                direction="higher",
                aggregate="over questions with accepted answers; default decoding setting",
                undefined="value",
                source=OURS,
                function="pipeline.core.semantics.inverse_entropy_metrics:metric_rows",
            ),
        )
    ),
)
