"""The metrics of the sets of a model's laws."""

from functools import partial

from pipeline.metrics.metric import OURS, Metric

HULL, SETS = "pipeline.axes.credal.hull", "pipeline.axes.credal.sets"
_credal = partial(
    Metric,
    axis="credal",
    n="questions",
    aggregate="mean over questions; the members are the laws under the decoding settings",
    decimals=3,
    undefined="questions",
    source=OURS,
    unit="nats",
    direction="neither",
)
METRICS = (
    _credal(
        name="credal_distance",
        title="Distance of people's law from the set",
        definition="Total variation of people's law from the nearest mixture of the model's laws. Floor: from the set "
        "of as many samples of held-out people.",
        formula_text="min over mixtures of 1/2 sum |mixture - people|",
        unit="probability",
        direction="lower",
        function=f"{HULL}:hull_distances",
        headline=1,
        column="Distance",
    ),
    _credal(
        name="credal_covered",
        title="Questions whose law of people is covered",
        definition="Share of questions whose distance is at most the 95% quantile of held-out people's.",
        formula_text="questions with distance <= 95% quantile of people / questions",
        unit="share of questions",
        direction="higher",
        function=f"{SETS}:coverage_row",
        headline=2,
        column="Covered",
    ),
    _credal(
        name="credal_lower_entropy_nats",
        title="Lower entropy",
        definition="Smallest entropy of a mixture of the laws, which is that of a member.",
        formula_text="min over members of H",
        function=f"{HULL}:entropy_bounds",
    ),
    _credal(
        name="credal_upper_entropy_nats",
        title="Upper entropy",
        definition="Largest entropy of a mixture of the laws.",
        formula_text="max over mixtures of H",
        function=f"{HULL}:upper_entropy",
    ),
    _credal(
        name="credal_within_entropy_nats",
        title="Entropy within members",
        definition="Mean entropy of the members' laws.",
        formula_text="mean of H(member)",
        function=f"{HULL}:entropy_split",
        column="Within",
    ),
    _credal(
        name="credal_between_entropy_nats",
        title="Entropy between members",
        definition="Entropy of the mean law less the mean entropy. Floor: answers shuffled among the members.",
        formula_text="H(mean of members) - mean of H(member)",
        function=f"{HULL}:entropy_split",
        column="Between",
    ),
    _credal(
        name="credal_diameter",
        title="Diameter of the set",
        definition="Largest total variation between two members. Floor: answers shuffled among the members.",
        formula_text="max over pairs of 1/2 sum |member - member|",
        unit="probability",
        function=f"{HULL}:diameter",
        column="Diameter",
    ),
)
