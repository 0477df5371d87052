"""The metrics of open-ended answers."""

from functools import partial

from pipeline.axes.metric import OURS, PAPER, PROMPT_MEAN, PROMPTS, Metric

_open = partial(
    Metric,
    axis="open",
    n=PROMPTS,
    source=f"{PAPER}, Section 4.2",
    aggregate=PROMPT_MEAN,
    undefined="prompts",
    direction="neither",
)

_listed = partial(
    _open, n="prompts with a list", source=OURS, direction="higher", function="pipeline.axes.open.evaluate:open_row"
)

METRICS = (
    _open(
        name="top_p_support_size",
        title="Top-90% support size",
        definition="Tokens, most probable first, that hold 90% of the probability of the first token of an answer.",
        unit="tokens",
        function="pipeline.axes.open.open_ended:support_size",
        decimals=1,
        column="Support size",
        headline=1,
    ),
    _open(
        name="unique_fraction",
        title="Unique output rate",
        definition="Distinct answers over all samples, failures included, as expected at the common number of samples.",
        unit="share",
        function="pipeline.core.language.diversity:expected_distinct",
        decimals=3,
        headline=2,
    ),
    _listed(
        name="listed_distinct",
        title="Distinct answers on the list",
        definition="Members of a category's closed list (the months, countries, elements, ...) that were named, as "
        "expected at the common number of samples: more is more variety, which invented words do not add to.",
        unit="members",
        decimals=1,
        column="On the list, distinct",
        headline=3,
    ),
    _listed(
        name="listed_fraction",
        title="Share of answers on the list",
        definition="Share of the answers that name a member of the category's closed list.",
        unit="share",
        decimals=3,
        column="On the list",
    ),
)
