"""The model card of an adapter: the hub's metadata, and a text in which every number is from the report."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.axes import AXES
from pipeline.axes.laws import SPLIT_TITLES as LAW_SPLITS
from pipeline.axes.registry import HEADLINES, METRICS, SPLIT_TITLES
from pipeline.config.conditions import training_settings
from pipeline.config.evaluation import PEOPLE_AXES, QUESTION_AXES
from pipeline.config.params import BASE, Params
from pipeline.config.retention import is_local_path
from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.structured import TEMPLATE
from pipeline.errors import ArtifactError, first_line
from pipeline.publish.licence import Licence
from pipeline.report.evaluations import rows_of
from pipeline.report.retention import WITHOUT_BOS
from pipeline.report.settings import methods_table, shared_settings, unseen_place
from pipeline.report.table import DASH, metric_cell
from pipeline.report.table_text import escape_markdown, markdown_table

PAPER = "2605.11845"
RESULT_HEADER = ("Metric", "Better", "Base", "With the adapter", "Perfect sampler", "n, base / adapter")
TITLES = {**SPLIT_TITLES, **LAW_SPLITS}
CALIBRATION = ("structured", "laws")
"""Axes that say how well answers follow their laws; a card needs one of them."""
DIFFERENCES = {
    "retention": ("gp_irt_difference", "accuracy_difference"),
    "paloma": tuple(f"{name}{suffix}" for suffix in ("", WITHOUT_BOS) for name in ("bits_per_byte_difference",)),
}
"""Metrics of paired differences from base, by axis."""
BETTER = {"lower": "lower", "higher": "higher", "neither": DASH}


@dataclass(frozen=True)
class Publication:
    """What a card is made from.

    Attributes:
        params: The parameters.
        model: Name in params.yaml.
        method: Name in params.yaml.
        report: What check_model found the base checkpoint to be.
        training: Record of each run that has trained, by method: the adapter's own, or those it is merged from.
        adapter: Record of the run that made the adapter.
        evaluations: Record of each evaluation, by (axis, condition).
        metrics: Rows of the evaluations, columns METRIC_COLUMNS and ``undefined``.
        licence: Of the base checkpoint.
        prompt: A request of a held-out family, as the evaluation put it.
        has_template: Whether the tokenizer has a chat template.
        own_requests: A request that was trained on, by name of the laws of one's own.
        num_requests: Requests that were trained on.
        repository: OWNER/NAME on the hub; None for a directory alone.
        merged_distance: Total variation between the next-token laws of merged weights and of the adapter behind
            ``prompt``; None without merged weights.
    """

    params: Params
    model: str
    method: str
    report: Mapping[str, Any]
    training: Mapping[str, Mapping[str, Any]]
    adapter: Mapping[str, Any]
    evaluations: Mapping[tuple[str, str], Mapping[str, Any]]
    metrics: pd.DataFrame
    licence: Licence
    prompt: str
    has_template: bool
    own_requests: Mapping[str, str]
    num_requests: int
    repository: str | None = None
    merged_distance: float | None = None

    @property
    def title(self) -> str:
        """The base checkpoint's name with the method's."""
        return f"{self.params.models[self.model].display_name}, {self.method}"

    @property
    def base_is_local(self) -> bool:
        """Whether the base checkpoint is a directory rather than a repository of the hub."""
        return is_local_path(self.report["checkpoint"])


class ResultRow(NamedTuple):
    """One metric of a card: its rows of metrics.csv of base (None without one) and of the adapter, and its texts.

    The texts are as RESULT_HEADER titles them, not escaped.
    """

    base: Any
    adapter: Any
    texts: tuple[str, ...]


def result_rows(publication: Publication, axis: str) -> list[ResultRow]:
    """The headline metrics of an axis that exist, and paired differences from base where there are any."""
    own = rows_of(publication.metrics, axis=axis, model=publication.model, family="")
    found = {(row.condition, row.split, row.metric): row for row in own.itertuples()}
    addresses = [(split, name) for split in AXES[axis].splits for name in HEADLINES[axis]]
    rows = []
    for address in (*addresses, *(("all", name) for name in DIFFERENCES.get(axis, ()))):
        base, adapter = (found.get((condition, *address)) for condition in (BASE, publication.method))
        if adapter is None:
            continue
        metric = METRICS[adapter.metric]
        unit = "" if metric.unit in ("1", "share") or metric.unit == metric.title.lower() else f", in {metric.unit}"
        sizes = [DASH if row is None else f"{row.n:,}" for row in (base, adapter)]
        cells = [None if row is None else metric_cell(row) for row in (base, adapter)]
        values = [DASH if cell is None else f"{cell.text} {cell.detail}".strip() for cell in cells]
        floor = metric_cell(adapter, "floor").text
        texts = (f"{metric.title}{unit}", BETTER[metric.direction], *values, floor, f"{' / '.join(sizes)} {metric.n}")
        rows.append(ResultRow(base, adapter, texts))
    return rows


def result_table(rows: Sequence[ResultRow]) -> str:
    """Rows as a Markdown table; columns in which nothing stands are left out."""
    kept = [place for place in range(len(RESULT_HEADER)) if any(row.texts[place] != DASH for row in rows)]
    texts = [[escape_markdown(row.texts[place]) for place in kept] for row in rows]
    return markdown_table([RESULT_HEADER[place] for place in kept], texts)


def axis_title(publication: Publication, axis: str) -> str:
    """The title of an axis, with a word where what it compares with is not what it seems."""
    questions = publication.params.prompts.questions
    synthetic = axis in PEOPLE_AXES and questions is not None and questions.synthetic_people
    return AXES[axis].title + (" (synthetic counts of people)" if synthetic else "")


def evaluation_results(publication: Publication) -> list[EvalResult]:
    """The defined numbers of the adapter in the hub's terms; a metric's name says its sample size and interval."""
    prompts = publication.params.prompts
    sources = {"paloma": publication.params.paloma.source, "novelty": prompts.novelty.source}
    if prompts.questions is not None:
        sources |= dict.fromkeys(QUESTION_AXES, prompts.questions.source)
    found = []
    for axis in publication.params.axes:
        source = sources.get(axis, "")
        for row in result_rows(publication, axis):
            cell = row.adapter
            if not math.isfinite(cell.value):
                continue
            interval = f", 95% interval [{cell.ci_low:.4g}, {cell.ci_high:.4g}]" if math.isfinite(cell.ci_low) else ""
            floor = f", a perfect sampler scores {cell.floor:.4g}" if math.isfinite(cell.floor) else ""
            title, split = axis_title(publication, axis), TITLES.get(cell.split, "")
            found.append(
                EvalResult(
                    task_type="text-generation",
                    task_name=AXES[axis].title,
                    dataset_type=source if source and not is_local_path(source) else f"calibration-fine-tuning/{axis}",
                    dataset_name=f"{title}, {split}" if split else title,
                    dataset_split=cell.split,
                    metric_type=cell.metric,
                    metric_name=f"{METRICS[cell.metric].title} (n = {cell.n:,} {METRICS[cell.metric].n}"
                    f"{interval}{floor})",
                    metric_value=cell.value,
                )
            )
    return found


def card_data(publication: Publication) -> ModelCardData:
    """The card's metadata: base model, licence, library, tags and the model-index."""
    licence, local = publication.licence, publication.base_is_local
    return ModelCardData(
        base_model=None if local else publication.report["checkpoint"],
        base_model_relation=None if local else "adapter",
        license=licence.identifier,
        license_name=licence.name,
        license_link=licence.link,
        language="en",
        library_name="peft",
        pipeline_tag="text-generation",
        tags=["lora", "peft", "calibration-fine-tuning", "random-number-generation", f"arxiv:{PAPER}"],
        model_name=publication.title,
        eval_results=evaluation_results(publication),
    )


def training_rows(publication: Publication) -> list[tuple[str, str]]:
    """What the adapter was trained on and how, as (setting, value)."""
    params, method = publication.params, publication.params.methods[publication.method]
    names = dict.fromkeys((publication.method, *(method.merge or {})))
    own = dataclasses.replace(
        params,
        conditions=list(names),
        methods={name: params.methods[name] for name in names},
        models={publication.model: params.models[publication.model]},
    )
    rows = []
    if (table := methods_table(own)) is not None:
        (values,) = (row for row in table.rows if row[0] == publication.method)
        rows += [(title, text) for title, text in zip(table.header, values, strict=True) if text != DASH][1:]
    for name, record in publication.training.items():
        suffix = f" ({name})" if name != publication.method else ""
        rows += [(f"{title}{suffix}", text) for title, text in _target_rows(params, name)]
        rows.append((f"Optimiser steps{suffix}", f"{record['steps']:,}"))
    # Whose practice was followed is said in terms of the project's own documents.
    return rows + [(title, here) for title, here, *_ in shared_settings(own).rows if not title.startswith("Practice")]


def _target_rows(params: Params, name: str) -> list[tuple[str, str]]:
    """What a method's targets are and how often each prompt is seen."""
    settings, rows = training_settings(params, name), []
    for target in params.methods[name].targets:
        bins = getattr(params.discretize, target).max_bins
        strings = "strings of every decimal" if bins is None else f"at most {bins:,} strings of a law"
        if target == "soft":
            soft = settings.soft
            paths = {"path": "1 sampled path", "paths": f"{soft.paths_per_prompt} sampled paths", "exact": "every path"}
            text = (
                f"KL from the law's next-token distributions to the model's along {paths[soft.estimator]} of a prefix "
                f"trie (Eq. 3), {strings}; epochs: {soft.epochs}, examples of each prompt in one: "
                f"{soft.samples_per_prompt}"
            )
        else:
            hard = settings.hard
            text = (
                f"cross-entropy of strings drawn from the law (Eq. 4), {strings}; epochs: {hard.epochs}, strings "
                f"of each prompt in one: {hard.samples_per_prompt}"
            )
        rows.append((f"{target.capitalize()} target", text))
    return rows


def commits(records: Mapping[Any, Mapping[str, Any]]) -> list[str]:
    """The distinct commits of records, with a word where files differed from them."""
    found = {}
    for record in records.values():
        git = record["git"] or {"commit": "not under Git", "modified": False}
        found[git["commit"] + (" with local changes" if git["modified"] else "")] = None
    return list(found)


def request_code(publication: Publication) -> str:
    """A Python expression for the text of a chat request ``messages``, as the stages put it."""
    chat = publication.params.models[publication.model].chat
    prefix = f" + {chat.answer_prefix!r}" if chat.answer_prefix else ""
    if not publication.has_template:
        return f'messages[0]["content"]{prefix}'
    options = [f"{name}={value!r}" for name, value in chat.template_arguments.items() if name != "current_date"]
    if (today := chat.template_arguments.get("current_date")) is not None:
        # The template reads the machine's clock; the adapter was trained with this date.
        options.append(f"strftime_now=datetime.date.fromisoformat({today!r}).strftime")
    arguments = ", ".join(["messages", "tokenize=False", "add_generation_prompt=True", *options])
    return f"tokenizer.apply_chat_template({arguments}){prefix}"


def model_card(publication: Publication) -> ModelCard:
    """The card, read back by huggingface_hub, which finds in it what was put in.

    Raises:
        ArtifactError: huggingface_hub does not read the metadata as it was written.
    """
    params, data = publication.params, card_data(publication)
    wanted = params.prompts.families
    families = [FAMILIES[name] for name in (FAMILIES if wanted is None else wanted)]
    rows = {axis: result_rows(publication, axis) for axis in params.axes}
    titles = TITLES | {"unseen": f"{TITLES['unseen']}, {unseen_place(params)} the ranges of training"}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["repr"] = repr
    text = environment.get_template("model_card.md.jinja").render(
        publication=publication,
        model=params.models[publication.model],
        anchored=any(params.methods[name].anchors is not None for name in publication.training),
        params=params,
        paper=PAPER,
        demo=params.experiment == "demo",
        request=TEMPLATE.format(display_name="[name]", parameters="[name]=[value], [name]=[value]"),
        request_code=request_code(publication),
        trained=[family.display_name for family in families if family.seen],
        held_out=[family.display_name for family in families if not family.seen],
        settings=markdown_table(
            ["Setting", "Value"], [[escape_markdown(text) for text in row] for row in training_rows(publication)]
        ),
        numbers={
            titles[split]: result_table(own)
            for axis in CALIBRATION
            for split in AXES[axis].splits
            if (own := [row for row in rows.get(axis, ()) if row.adapter.split == split])
        },
        beyond={
            axis_title(publication, axis): result_table(own)
            for axis, own in rows.items()
            if axis not in CALIBRATION and own
        },
        absent=[
            title
            for axis, title in ((name, axis.title) for name, axis in AXES.items())
            if not rows.get(axis) and axis in params.possible_axes
        ],
        training_commits=commits({"": publication.adapter, **publication.training}),
        evaluation_commits=commits(publication.evaluations),
    )
    try:
        card = ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")
    except ValueError as error:
        raise ArtifactError(f"huggingface_hub refuses the model card's metadata: {first_line(error)}") from None
    if card.data.to_dict() != data.to_dict():
        raise ArtifactError("huggingface_hub reads other metadata from the model card than was written into it")
    return card
