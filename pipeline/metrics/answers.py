"""The metrics of answers to questions: agreement with people, semantic calibration."""

from collections.abc import Iterator
from functools import partial

from pipeline.metrics.metric import OURS, Metric

HUMAN_PAPER = "arXiv:2509.23088"
CALIBRATION_PAPER = "arXiv:2511.04869"
SMOOTH = "Blasiok and Nakkiran 2023 (arXiv:2309.12236)"
CHAO = "Chao, Wang and Jost 2013"
AGREEMENT = "pipeline.core.semantics.agreement"
CALIBRATION = "pipeline.core.semantics.calibration"
DISCRIMINATION = "pipeline.core.semantics.discrimination"
SETTINGS = "split all: the default decoding setting; other splits: the setting of that name"

_human = partial(
    Metric,
    axis="human",
    n="questions",
    aggregate=f"mean over questions; {SETTINGS}",
    decimals=3,
    undefined="questions",
    function=f"{AGREEMENT}:agreement",
)
CHANGE = "Change of {} against base, on the same questions."

HUMAN = (
    _human(
        name="human_tv",
        title="Total variation from people",
        definition="Total variation of the model's law over classes of answers from people's; answers in no class of "
        "people's are one class. The floor is that of people against people.",
        formula_text="1/2 sum over classes of |model - people|",
        unit="probability",
        direction="lower",
        source=HUMAN_PAPER,
        function=f"{AGREEMENT}:total_variation",
        headline=1,
    ),
    _human(
        name="human_js_bits",
        title="Jensen-Shannon divergence from people",
        definition="Jensen-Shannon divergence of the two laws. The floor is that of people against people.",
        formula_text="H((model + people) / 2) - (H(model) + H(people)) / 2, base 2",
        unit="bits",
        direction="lower",
        source=HUMAN_PAPER,
        function=f"{AGREEMENT}:jensen_shannon",
        column="JS (bits)",
    ),
    _human(
        name="human_kl_nats",
        title="KL divergence from people, smoothed",
        definition="KL divergence of the model's law from people's, one half added to the count of every class. The "
        "floor is that of people against people.",
        formula_text="sum of people log(people / model)",
        unit="nats",
        direction="lower",
        source=OURS,
        function=f"{AGREEMENT}:smoothed_divergence",
        column="KL (nats)",
    ),
    _human(
        name="human_recall",
        title="Recall of people's answers",
        definition="Share of people whose class of answers the model gave at least once.",
        formula_text="sum of people over the classes that the model answered",
        unit="share of people",
        direction="higher",
        source=HUMAN_PAPER,
        headline=2,
    ),
    _human(
        name="human_within_band",
        title="Questions within people's band",
        definition="Share of questions whose total variation from people is at most the 95% quantile of people against "
        "people, at these numbers of people and answers. A model that answers as people do is expected at 0.95.",
        formula_text="questions with TV <= 95% quantile / questions",
        unit="share of questions",
        direction="higher",
        source=OURS,
        function=f"{AGREEMENT}:people_against_people",
        column="Within the band",
        headline=3,
    ),
    _human(
        name="same_top_answer",
        title="Same most frequent answer",
        definition="Share of questions whose most frequent class of answers is the model's and people's.",
        formula_text="questions with argmax model = argmax people / questions",
        unit="share of questions",
        direction="higher",
        source="arXiv:2508.08204",
        column="Same top answer",
    ),
    _human(
        name="people_entropy_nats",
        title="Entropy of people's answers",
        definition="Entropy of people's classes, corrected for the number of people.",
        formula_text="as the entropy of open-ended answers",
        unit="nats",
        direction="neither",
        source=CHAO,
        column="People's entropy (nats)",
    ),
    _human(
        name="model_entropy_nats",
        title="Entropy of answers by class",
        definition="Entropy of the model's classes of answers, those in no class of people's being one; corrected for "
        "the number of answers.",
        formula_text="as the entropy of open-ended answers",
        unit="nats",
        direction="neither",
        source=CHAO,
        column="Entropy (nats)",
    ),
    _human(
        name="entropy_gap_nats",
        title="Entropy, model less people",
        definition="Below 0 where the model's answers vary less than people's.",
        formula_text="H(model) - H(people)",
        unit="nats",
        direction="neither",
        source=OURS,
        column="Entropy gap (nats)",
    ),
    *(
        _human(
            name=f"{name}_difference",
            title=f"{title}, change",
            definition=CHANGE.format(what),
            formula_text="own - base, on the same questions",
            unit=unit,
            direction=direction,
            source=OURS,
        )
        for name, title, what, unit, direction in (
            ("human_tv", "Total variation from people", "the total variation from people", "probability", "lower"),
            (
                "human_js_bits",
                "Jensen-Shannon divergence from people",
                "the Jensen-Shannon divergence",
                "bits",
                "lower",
            ),
            ("human_recall", "Recall of people's answers", "the recall", "share of people", "higher"),
        )
    ),
)

_judge = partial(
    _human, aggregate="over all questions and settings", n="evaluations", undefined="value", source=OURS, decimals=0
)
_JUDGE = (
    _judge(
        name="judge_pairs",
        title="Pairs of answers",
        definition="Ordered pairs of answers to one question, which a judge of entailment could be asked for.",
        formula_text="sum over questions of answers * (answers - 1)",
        unit="pairs",
        direction="neither",
        function="pipeline.core.semantics.human_metrics:judge_rows",
        column="Pairs",
    ),
    _judge(
        name="judge_calls",
        title="Pairs judged",
        definition="Different pairs that neither equal texts nor people's spellings decide.",
        formula_text="verdicts",
        unit="calls",
        direction="neither",
        function="pipeline.core.semantics.partition:classify",
        column="Judged",
    ),
    _judge(
        name="judge_calls_saved",
        title="Calls of the judge saved",
        definition="Share of pairs without a call, with a cache that is empty at first.",
        formula_text="1 - calls / pairs",
        unit="share of pairs",
        direction="higher",
        function="pipeline.core.semantics.human_metrics:judge_rows",
        column="Saved",
        decimals=4,
    ),
)
_semcal = partial(
    Metric,
    axis="semcal",
    n="questions",
    unit="probability",
    direction="lower",
    source=CALIBRATION_PAPER,
    aggregate=f"over all questions; {SETTINGS}",
    decimals=3,
    undefined="value",
)
_CONFIDENCE = "Sem2: the share of one half of the answers in the class that is most frequent in the other half"
_FLOOR = " The floor is that of a calibrated model at this number of questions and answers."
_OF = {"": "the accepted answers", "people_": "people's answers"}
_LABEL = {
    "": "whether the most frequent class is right",
    "people_": "the share of people whose answer is in the most frequent class",
}


def _errors(prefix: str, headline: int) -> Iterator[Metric]:
    """Distances of confidence from frequency, against accepted answers ("") or people's ("people_")."""
    against = "" if not prefix else ", against people"
    error = partial(_semcal, formula_text="integral of |smoothed mean residual|, at a width equal to the error")
    yield error(
        name=f"semcal_{prefix}smooth_ece",
        title=f"Semantic calibration error{against}",
        definition=f"SmoothECE of the confidence in the most frequent class against {_OF[prefix]}. Confidence: "
        f"{_CONFIDENCE}. Label: {_LABEL[prefix]}.{_FLOOR}",
        source=f"{CALIBRATION_PAPER}; {SMOOTH}",
        function=f"{CALIBRATION}:smooth_calibration_error",
        column=f"SmoothECE{against}",
        headline=headline,
    )
    yield error(
        name=f"semcal_{prefix}smooth_ece_sem1",
        title=f"Semantic calibration error{against}, Sem1",
        definition="The same with the share of all answers in the most frequent class as confidence, which is larger "
        f"than its probability.{_FLOOR}",
        function="pipeline.core.semantics.confidence:modal_confidence",
        column=f"SmoothECE, Sem1{against}",
    )
    for name, kind, title in (
        ("ece", "equal width", "ECE"),
        ("ece_equal_mass", "as many questions", "ECE, equal mass"),
    ):
        yield _semcal(
            name=f"semcal_{prefix}{name}",
            title=f"Semantic {title}{against}",
            definition=f"The same in ten bins of {kind}.{_FLOOR}",
            formula_text="sum over bins of their share of questions times |mean label - mean confidence|",
            function=f"{CALIBRATION}:binned_errors",
            column=f"{title}{against}",
        )
    yield error(
        name=f"semcal_{prefix}classwise_smooth_ece",
        title=f"Class-wise semantic calibration error{against}",
        definition=f"SmoothECE over all pairs of a question and a class of answers, a class's share of the answers "
        f"against {'its being right' if not prefix else 'its share of people'}.{_FLOOR}",
        function=f"{CALIBRATION}:smooth_calibration_error",
        column=f"Class-wise{against}",
    )
    yield _semcal(
        name=f"semcal_{prefix}smooth_ece_difference",
        title=f"Semantic calibration error{against}, change",
        definition="Change against base on the same questions, resampled together.",
        formula_text="own - base, on the same questions",
        source=OURS,
        function="pipeline.core.semantics.semantic_calibration:metric_rows",
        column=f"Change of SmoothECE{against}",
    )


def _levels(prefix: str) -> Iterator[Metric]:
    """Mean confidence and mean label, whose difference says which way a model is wrong."""
    against = "" if not prefix else ", people"
    accuracy = "Share of questions whose most frequent class of answers is right."
    people = "Mean share of people whose answer is in the model's most frequent class."
    level = partial(_semcal, direction="neither", function="pipeline.core.semantics.semantic_calibration:question_row")
    yield level(
        name=f"semcal_{prefix}accuracy",
        title="Accuracy of the most frequent class" if not prefix else "People in the most frequent class",
        definition=people if prefix else accuracy,
        formula_text="mean label",
        unit="share",
        direction="higher",
        column="Accuracy" if not prefix else "People",
    )
    yield level(
        name=f"semcal_{prefix}confidence",
        title=f"Confidence in the most frequent class{against}",
        definition=f"Mean of {_CONFIDENCE}, over the questions with {'people' if prefix else 'accepted'}"
        f"{chr(39) + 's' if prefix else ''} answers.",
        formula_text="mean confidence",
        function="pipeline.core.semantics.confidence:held_out_confidence",
        column=f"Confidence{against}",
    )
    yield level(
        name=f"semcal_{prefix}gap",
        title=f"Overconfidence{against}",
        definition=f"Mean confidence less mean label ({_LABEL[prefix]}); 0 for a calibrated model.",
        formula_text="mean of confidence - label",
        column=f"Overconfidence{against}",
    )
    for name, what in (
        ("gap", "Overconfidence"),
        ("accuracy", "Semantic accuracy" if not prefix else "Share of people"),
    ):
        yield level(
            name=f"semcal_{prefix}{name}_difference",
            title=f"{what}{against if name == 'gap' else ''}, change",
            definition=CHANGE.format(what.lower()),
            formula_text="own - base, on the same questions",
            source=OURS,
        )


_SCORES = (
    _semcal(
        name="semcal_brier",
        title="Brier score of semantic confidence",
        definition="Mean squared difference of confidence and label.",
        formula_text="mean of (confidence - label)^2",
        unit="1",
        source="Brier 1950",
        function=f"{CALIBRATION}:brier_score",
        column="Brier",
    ),
    _semcal(
        name="semcal_refinement",
        title="Refinement of semantic confidence",
        definition="What is left of the Brier score behind the best non-decreasing recalibration, fitted on the same "
        "questions.",
        formula_text="Brier score of the isotonic regression of labels on confidences",
        unit="1",
        source="Dimitriadis, Gneiting and Jordan 2021",
        function=f"{CALIBRATION}:refinement",
        column="Refinement",
    ),
    _semcal(
        name="semcal_auroc",
        title="AUROC of semantic confidence",
        definition="Probability that the confidence is larger where the most frequent class is right than where it is "
        "wrong; 1/2 for one that knows nothing.",
        formula_text="P(confidence of a right answer > that of a wrong one), ties one half",
        unit="probability",
        direction="higher",
        source="Mann and Whitney 1947",
        function=f"{DISCRIMINATION}:auroc",
        column="AUROC",
    ),
    _semcal(
        name="semcal_risk_coverage",
        title="Area under risk by coverage",
        definition="Mean share of errors among the most confident questions, over all numbers of them.",
        formula_text="mean over k of the errors among the k most confident / k",
        unit="share",
        source="Geifman and El-Yaniv 2017",
        function=f"{DISCRIMINATION}:risk_coverage_area",
        column="AURC",
    ),
    _semcal(
        name="semcal_rejection_ratio",
        title="Prediction-rejection ratio",
        definition="What rejecting the least confident answers first gains over rejecting at random, as a share of "
        "what an oracle gains.",
        formula_text="(area at random - area) / (area at random - area of an oracle)",
        unit="1",
        direction="higher",
        source="Malinin and Gales 2021",
        function=f"{DISCRIMINATION}:prediction_rejection_ratio",
        column="PRR",
    ),
)
SEMANTIC_CALIBRATION = (
    *_errors("", 1),
    *_errors("people_", 2),
    *_levels(""),
    *_levels("people_"),
    *_SCORES,
)

ANSWERS = (*HUMAN, *_JUDGE, *SEMANTIC_CALIBRATION)
