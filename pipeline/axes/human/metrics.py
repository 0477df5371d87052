"""The metrics of agreement with people."""

from functools import partial

from pipeline.metrics.metric import OURS, Metric

PAPER = "arXiv:2509.23088"
_human = partial(
    Metric,
    axis="human",
    n="questions",
    aggregate="mean over questions, of each over splits of people; floor: people who were held out",
    decimals=3,
    undefined="questions",
    source=PAPER,
    function="pipeline.axes.human.agreement:agreement",
)
METRICS = (
    _human(
        name="human_tv",
        title="Total variation from people",
        definition="Total variation of the model's law over classes of answers from people's. Answers that none of the "
        "people asked gave are one class.",
        formula_text="1/2 sum over classes of |model - people|",
        unit="probability",
        direction="lower",
        headline=1,
        column="TV",
    ),
    _human(
        name="human_js_bits",
        title="Jensen-Shannon divergence from people",
        definition="Jensen-Shannon divergence of the two laws.",
        formula_text="H((model + people) / 2) - (H(model) + H(people)) / 2, base 2",
        unit="bits",
        direction="lower",
        column="JS (bits)",
    ),
    _human(
        name="human_kl_nats",
        title="KL divergence from people, smoothed",
        definition="KL divergence of the model's law from people's, one half added to the count of every class.",
        formula_text="sum of people log(people / model)",
        unit="nats",
        direction="lower",
        source=OURS,
        column="KL (nats)",
    ),
    _human(
        name="human_recall",
        title="Recall of people's answers",
        definition="Share of people whose class of answers the model gave at least once.",
        formula_text="sum of people over the classes that the model answered",
        unit="share of people",
        direction="higher",
        column="Recall",
    ),
    _human(
        name="human_other_mass",
        title="Answers that no person gave",
        definition="Share of answers in no class of people's.",
        formula_text="answers in (other) / answers",
        unit="share of answers",
        direction="lower",
        source=OURS,
        column="Other",
    ),
    _human(
        name="human_same_top_answer",
        title="Same most frequent answer",
        definition="Share of questions whose most frequent class of answers is the model's and people's.",
        formula_text="questions with argmax model = argmax people / questions",
        unit="share of questions",
        direction="higher",
        source="arXiv:2508.08204",
        column="Same top answer",
    ),
    _human(
        name="human_within_band",
        title="Questions within people's band",
        definition="Share of questions whose total variation from people is at most the 95% quantile of that of "
        "held-out people. A model that answers as people do is expected at 0.95.",
        formula_text="questions with TV <= 95% quantile of people / questions",
        unit="share of questions",
        direction="higher",
        source=OURS,
        function="pipeline.axes.human.agreement:question_row",
        column="Within the band",
        headline=2,
    ),
)
