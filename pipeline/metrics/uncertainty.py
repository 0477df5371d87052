"""The metrics of how unsure answers are: sets of laws, measures of uncertainty at inference."""

from collections.abc import Iterator
from functools import partial

from pipeline.metrics.answers import CHANGE, DISCRIMINATION, HUMAN_PAPER
from pipeline.metrics.metric import OURS, Metric

SETS = "pipeline.core.semantics.credal"
_credal = partial(
    Metric,
    axis="credal",
    n="questions",
    unit="nats",
    direction="neither",
    source=HUMAN_PAPER,
    aggregate="mean over questions; the set of a question holds all mixtures of its members' laws: under the decoding "
    "settings (split all), or to its own wording and its paraphrases (split variants)",
    decimals=3,
    undefined="questions",
)
CREDAL = (
    _credal(
        name="credal_distance",
        title="People's distance from the set of laws",
        definition="Total variation of people's law from the nearest mixture of the model's laws. The floor is that of "
        "people who answer by that mixture, at these numbers of people and answers.",
        formula_text="min over mixtures w of 1/2 sum over classes of |sum of w_s p_s - people|",
        unit="probability",
        direction="lower",
        function=f"{SETS}:hull_distances",
        column="Distance",
        headline=1,
    ),
    _credal(
        name="credal_covered",
        title="Questions whose set holds people's law",
        definition="Share of questions whose distance is at most its 95% quantile where people's law is in the set; "
        "expected at 0.95 then.",
        formula_text="questions with distance <= 95% quantile / questions",
        unit="share of questions",
        direction="higher",
        function="pipeline.core.semantics.credal_metrics:question_table",
        column="Covered",
        headline=2,
    ),
    _credal(
        name="credal_nearest_member",
        title="People's distance from the nearest member",
        definition="Total variation of people's law from the nearest of the model's laws themselves.",
        formula_text="min over s of TV(p_s, people)",
        unit="probability",
        direction="lower",
        function="pipeline.core.semantics.agreement:total_variation",
        column="Nearest member",
    ),
    _credal(
        name="credal_lower_entropy_nats",
        title="Lower entropy of the set",
        definition="Least entropy of a law of the set, that of a member.",
        formula_text="min over s of H(p_s)",
        function=f"{SETS}:entropy_bounds",
        column="Lower entropy (nats)",
    ),
    _credal(
        name="credal_upper_entropy_nats",
        title="Upper entropy of the set",
        definition="Largest entropy of a law of the set.",
        formula_text="max over mixtures w of H(sum of w_s p_s)",
        function=f"{SETS}:upper_entropy",
        column="Upper entropy (nats)",
    ),
    _credal(
        name="credal_imprecision_nats",
        title="Imprecision of the set",
        definition="Upper less lower entropy.",
        formula_text="upper - lower",
        function=f"{SETS}:entropy_bounds",
        column="Imprecision (nats)",
    ),
    _credal(
        name="credal_total_entropy_nats",
        title="Entropy of the even mixture",
        definition="Entropy of the mean of the members.",
        formula_text="H(mean of p_s)",
        function=f"{SETS}:entropy_split",
        column="Total (nats)",
    ),
    _credal(
        name="credal_within_entropy_nats",
        title="Entropy within members",
        definition="Mean entropy of the members.",
        formula_text="mean of H(p_s)",
        function=f"{SETS}:entropy_split",
        column="Within (nats)",
    ),
    _credal(
        name="credal_between_entropy_nats",
        title="Entropy between members (expected information gain)",
        definition="Jensen-Shannon divergence of the members: the mutual information of the answer and the member it "
        "is from, which BED-LLM calls a question's expected information gain. The floor is that of members that answer "
        "by one law, at these numbers of answers.",
        formula_text="H(mean of p_s) - mean of H(p_s)",
        source="Lin 1991; arXiv:2508.21184",
        function=f"{SETS}:entropy_split",
        column="Between (nats)",
    ),
    _credal(
        name="credal_diameter",
        title="Diameter of the set",
        definition="Largest total variation between two members. The floor is that of members that answer by one law, "
        "at these numbers of answers.",
        formula_text="max over s, t of TV(p_s, p_t)",
        unit="probability",
        function=f"{SETS}:diameter",
        column="Diameter",
    ),
    _credal(
        name="credal_relative_volume",
        title="Volume of the set",
        definition="Volume of the set over that of all laws, where a question has at most six classes and no more than "
        "it has members.",
        formula_text="volume of the hull of p_s / (sqrt(K) / (K - 1)!)",
        unit="share of the simplex",
        source=OURS,
        function=f"{SETS}:hull_volume",
        column="Volume",
    ),
    _credal(
        name="credal_people_within_bounds",
        title="Questions whose people's entropy lies within the set's",
        definition="Share of questions whose entropy of people's answers (uncorrected) is between the lower and the "
        "upper entropy.",
        formula_text="questions with lower <= H(people) <= upper / questions",
        unit="share of questions",
        direction="higher",
        source=OURS,
        function=f"{SETS}:entropy_bounds",
        column="People's entropy within",
    ),
    *(
        _credal(
            name=f"credal_{name}_difference",
            title=f"{title}, change",
            definition=CHANGE.format(title[0].lower() + title[1:]),
            formula_text="own - base, on the same questions",
            unit=unit,
            direction=direction,
            source=OURS,
            function="pipeline.core.semantics.credal_metrics:metric_rows",
        )
        for name, title, unit, direction in (
            ("distance", "People's distance from the set", "probability", "lower"),
            ("between_entropy_nats", "Entropy between members", "nats", "neither"),
            ("imprecision_nats", "Imprecision", "nats", "neither"),
        )
    ),
)
_PUBLISHED = "pipeline.core.semantics.published_sets"
_published = partial(
    Metric,
    axis="credal",
    n="questions",
    unit="1",
    direction="neither",
    source=HUMAN_PAPER,
    function=f"{_PUBLISHED}:hull_comparison",
    aggregate="mean over the groups of statistics whose hulls are not flat; a hull has a point for each question",
    decimals=2,
    undefined="groups of statistics",
)
_GROUPS = "Groups of three statistics of a question's answers: distances of embeddings, distances of words, lengths"
PUBLISHED = (
    *(
        metric
        for scaling, scaled, by in (
            ("", "as published", "each source standardised by itself, which removes location and scale"),
            ("referenced_", "in people's units", "all sources standardised by people's mean and standard deviation"),
        )
        for metric in (
            _published(
                name=f"published_{scaling}volume",
                title=f"Volume of the hull of diversity, {scaled}",
                definition=f"{_GROUPS}; {by}. The floor is the volume of people's hull.",
                formula_text="volume of the hull of a setting's points in the three dimensions of a group",
                column="Volume" if not scaling else "Volume, people's units",
            ),
            _published(
                name=f"published_{scaling}overlap",
                title=f"Overlap of the hulls of diversity, {scaled}",
                definition="Share of the vertices of a setting's hull within 1 of a vertex of people's. "
                f"{_GROUPS}; {by}.",
                formula_text="vertices with a vertex of people's at less than 1 / vertices",
                unit="share of vertices",
                column="Overlap" if not scaling else "Overlap, people's units",
            ),
            _published(
                name=f"published_{scaling}hausdorff",
                title=f"Hausdorff distance of the hulls of diversity, {scaled}",
                definition=f"Between the vertices of a setting's hull and those of people's. {_GROUPS}; {by}.",
                formula_text="largest distance of a vertex of either hull from the nearest of the other",
                column="Hausdorff" if not scaling else "Hausdorff, people's units",
            ),
        )
    ),
    _published(
        name="published_decoding_share",
        title="Share of the variance of diversity between decoding settings",
        definition="Variance of nine statistics between the means of settings, over that between and within; the "
        "paper's epistemic over total uncertainty, an analysis of variance's eta squared. The floor is its mean where "
        "settings are exchanged at random within each question.",
        formula_text="between / (between + within), all settings standardised together",
        unit="share of variance",
        function=f"{_PUBLISHED}:decoding_variance",
        aggregate="mean over the nine statistics, over all questions",
        undefined="questions",
        column="Decoding share",
    ),
)
UNCERTAINTY_PAPER = "arXiv:2508.08204"
ALIGNMENT = "pipeline.core.semantics.alignment"
_uncertainty = partial(
    Metric,
    axis="uncertainty",
    n="questions",
    unit="correlation",
    direction="neither",
    source=UNCERTAINTY_PAPER,
    aggregate="over all questions; default decoding setting",
    decimals=3,
    undefined="value",
)
_LEADING_TOKENS = {
    **{
        f"top_{k}_entropy": (f"Top-{k} entropy", f"entropy of the {k} most probable {{}}, renormalised, over ln {k}")
        for k in (5, 10, 25, 50, 100)
    },
    **{
        f"nucleus_{percent}_entropy": (
            f"Nucleus entropy, {percent}%",
            f"entropy of the {percent / 100:g}-nucleus of {{}}, renormalised, over the ln of its size",
        )
        for percent in (95, 90, 75, 50)
    },
}
_STEPS = "mean over the tokens of each answer, its end included, then over the answers"
UNCERTAINTY_MEASURES = {
    "semantic_entropy": ("Semantic entropy", "entropy of the shares of the classes of answers"),
    "answer_uncertainty": ("Answer uncertainty", "one less the share of answers in the most frequent class"),
    "lexical_dissimilarity": ("Lexical dissimilarity", "one less the mean ROUGE-L between answers"),
    "laplacian_eigenvalues": (
        "Laplacian eigenvalues",
        "sum of max(0, 1 - e) over the eigenvalues e of the normalised graph Laplacian of the answers' ROUGE-L",
    ),
    "token_entropy": ("First-token entropy", "entropy of the first token over ln V"),
    "token_surprise": ("First-token surprise", "negative log-probability of the most probable first token"),
    **{name: (title, meaning.format("first tokens")) for name, (title, meaning) in _LEADING_TOKENS.items()},
    "choice_entropy": (
        "Choice entropy",
        "of questions with options, entropy of the first token over the options' letters, renormalised, over the ln of "
        "their number",
    ),
    "choice_surprise": (
        "Choice surprise",
        "of questions with options, negative log-probability of the most probable letter among them",
    ),
    "mean_token_entropy": ("Mean token entropy", f"entropy of the next token over ln V, {_STEPS}"),
    "mean_token_surprise": (
        "Mean token surprise",
        f"negative log-probability of the most probable next token, {_STEPS}",
    ),
    **{
        f"mean_{name}": (f"Mean {title[0].lower()}{title[1:]}", f"{meaning.format('next tokens')}, {_STEPS}")
        for name, (title, meaning) in _LEADING_TOKENS.items()
    },
}
"""Title and meaning of each measure; larger for a less certain model."""
_LENGTH_PAPER = "arXiv:2504.13677"


def _uncertainty_metrics(measure: str, title: str, meaning: str, headline: int) -> Iterator[Metric]:
    """Alignment of one measure with people's entropy, and with right and wrong."""
    what = f"{title} ({meaning})"
    for name, short, how, formula, function in (
        (
            "partial_pearson",
            "partial correlation",
            "Correlation with the entropy of people's answers over questions with as many classes of people's",
            "Pearson's correlation of what is left of both after the mean of each number of classes",
            "partial_correlation",
        ),
        (
            "normalised_pearson",
            "normalised correlation",
            "Correlation with the entropy of people's answers, both over ln of the number of people's classes",
            "Pearson's correlation of measure / ln K and H(people) / ln K",
            "correlation",
        ),
        (
            "normalised_spearman",
            "normalised rank correlation",
            "Rank correlation of the same",
            "Spearman's correlation of measure / ln K and H(people) / ln K",
            "human_alignment",
        ),
        (
            "raw_pearson",
            "raw correlation",
            "Correlation with the entropy of people's answers; also large where both only grow with the number of "
            "classes, so it never stands alone",
            "Pearson's correlation of measure and H(people)",
            "correlation",
        ),
    ):
        yield _uncertainty(
            name=f"uncertainty_{measure}_{name}",
            title=f"{title}, {short}",
            definition=f"{how}. Measure: {meaning}.",
            formula_text=formula,
            direction="higher" if name == "partial_pearson" else "neither",
            function=f"{ALIGNMENT}:{function}",
            headline=headline if name == "partial_pearson" else 0,
        )
    yield _uncertainty(
        name=f"uncertainty_{measure}_permutation_p",
        title=f"{title}, permutation p",
        definition="Share of permutations among questions with as many classes whose partial correlation is as large.",
        formula_text="(1 + permutations with |r| >= observed) / (1 + permutations)",
        unit="probability",
        source=OURS,
        function=f"{ALIGNMENT}:human_alignment",
    )
    for name, short, definition, direction, source in (
        ("auroc", "AUROC", f"AUROC of {what} for wrong answers", "higher", UNCERTAINTY_PAPER),
        ("risk_coverage", "AURC", f"Area under risk by coverage of {what}", "lower", UNCERTAINTY_PAPER),
        ("rejection_ratio", "PRR", f"Prediction-rejection ratio of {what}", "higher", "Malinin and Gales 2021"),
        (
            "auroc_within_length",
            "AUROC within lengths",
            "The AUROC within groups of answers of like length; well below the AUROC where that is the length's",
            "higher",
            _LENGTH_PAPER,
        ),
        (
            "length_score_spearman",
            "length and certainty",
            "Rank correlation of the length of the answers with the certainty",
            "neither",
            _LENGTH_PAPER,
        ),
    ):
        function = {"risk_coverage": "risk_coverage_area", "rejection_ratio": "prediction_rejection_ratio"}
        yield _uncertainty(
            name=f"uncertainty_{measure}_{name}",
            title=f"{title}, {short}",
            definition=f"{definition}.",
            formula_text="as for semantic confidence, the score being the negative measure",
            unit="correlation" if name.endswith("spearman") else "1",
            direction=direction,
            source=source,
            function=f"{DISCRIMINATION}:{function.get(name, 'auroc' if name == 'auroc' else 'length_audit')}",
        )
    for name, what in (("partial_pearson", "partial correlation"), ("auroc", "AUROC")):
        yield _uncertainty(
            name=f"uncertainty_{measure}_{name}_difference",
            title=f"{title}, {what}, change",
            definition=CHANGE.format(f"the {what} of {title[0].lower()}{title[1:]}"),
            formula_text="own - base, on the same questions",
            unit="correlation" if name == "partial_pearson" else "1",
            direction="higher",
            source=OURS,
            function="pipeline.core.semantics.uncertainty_metrics:metric_rows",
        )


_audit = partial(_uncertainty, source=_LENGTH_PAPER, function=f"{DISCRIMINATION}:length_audit")
UNCERTAINTY = (
    *(
        metric
        for place, (measure, (title, meaning)) in enumerate(UNCERTAINTY_MEASURES.items())
        for metric in _uncertainty_metrics(measure, title, meaning, {0: 1, 4: 2}.get(place, 0))
    ),
    _audit(
        name="uncertainty_auroc_length",
        title="AUROC of the length",
        definition="AUROC of the length of the answers alone, short ones taken to be right.",
        formula_text="P(a right answer is shorter than a wrong one), ties one half",
        unit="1",
    ),
    _audit(
        name="uncertainty_length_label_spearman",
        title="Length and correctness",
        definition="Rank correlation of the length of the answers with their being right.",
        formula_text="Spearman's correlation of length and right",
    ),
)
