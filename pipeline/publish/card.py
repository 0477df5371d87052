"""The model card of an adapter: the hub's metadata, and a text in which every number is from the report."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from huggingface_hub import ModelCard, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.axes import AXES
from pipeline.axes.registry import HEADLINES, METRICS
from pipeline.config.params import BASE, Params
from pipeline.config.retention import is_local_path
from pipeline.config.training import merged_settings
from pipeline.core.laws.families import FAMILIES
from pipeline.errors import ArtifactError, first_line
from pipeline.publish.licence import Licence

PAPER = "2605.11845"
HEADER = ("Metric", "Better", "Base", "With the adapter", "Perfect sampler", "n, base / adapter")
DASH = "–"


@dataclass(frozen=True)
class Publication:
    """What a card is made from."""

    params: Params
    model: str
    method: str
    report: Mapping[str, Any]  # what check_model found the base checkpoint to be
    record: Mapping[str, Any]  # of the run that made the adapter
    metrics: pd.DataFrame  # aggregates of reports/metrics.csv, of base and the method
    licence: Licence
    prompt: str  # a request that was not trained on
    examples: list[str]  # requests that were trained on, of each kind
    num_requests: int
    has_template: bool
    repository: str | None  # OWNER/NAME on the hub; None for a directory alone

    @property
    def title(self) -> str:
        """The base checkpoint's name with the method's."""
        return f"{self.params.models[self.model].display_name}, {self.method}"

    @property
    def base_is_local(self) -> bool:
        """Whether the base checkpoint is a directory rather than a repository of the hub."""
        return is_local_path(self.report["checkpoint"])


def _number(row: dict | None, decimals: int) -> str:
    """A value with its interval; a dash where there is none."""
    if row is None or pd.isna(row["value"]):
        return DASH
    interval = "" if pd.isna(row["ci_low"]) else f" [{row['ci_low']:.{decimals}f}, {row['ci_high']:.{decimals}f}]"
    return f"{row['value']:.{decimals}f}{interval}"


def result_table(publication: Publication, axis: str, split: str) -> str:
    """Headline numbers of base and the adapter as a Markdown table; empty where the adapter has none."""
    metrics = publication.metrics
    chosen = metrics[(metrics["axis"] == axis) & (metrics["split"] == split)]
    known = {(row["condition"], row["metric"]): row for row in chosen.to_dict("records")}
    lines = []
    for name in (name for name in HEADLINES[axis] if (publication.method, name) in known):
        metric, base, adapter = METRICS[name], known.get((BASE, name)), known[publication.method, name]
        title = metric.title if metric.unit in ("1", "share") else f"{metric.title}, in {metric.unit}"
        floor = DASH if pd.isna(adapter["floor"]) else f"{adapter['floor']:.{metric.decimals}f}"
        sizes = " / ".join(DASH if row is None else f"{row['n']:,.0f}" for row in (base, adapter))
        better = DASH if metric.direction == "neither" else metric.direction
        values = (_number(row, metric.decimals) for row in (base, adapter))
        lines.append((title, better, *values, floor, f"{sizes} {metric.n}"))
    rule = ("---",) * len(HEADER)
    return "\n".join(f"| {' | '.join(line)} |" for line in (HEADER, rule, *lines)) if lines else ""


def training_settings(params: Params, method: str) -> str:
    """What the adapter was trained on and how, as YAML."""
    made = params.methods[method]
    discretize = {target: asdict(getattr(params.discretize, target)) for target in made.targets}
    train = merged_settings(asdict(params.train), made.train)
    settings = {"methods": {method: asdict(made)}, method: {"discretize": discretize, "train": train}}
    return yaml.safe_dump(settings, sort_keys=False)


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
    """The card, read back by huggingface_hub. Raises ArtifactError where that does not take the metadata."""
    params = publication.params
    wanted = FAMILIES if params.prompts.families is None else params.prompts.families
    families = [FAMILIES[name] for name in wanted]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["repr"] = repr
    tables = {
        f"{AXES[axis].title}, {title}" if title else AXES[axis].title: table
        for axis in params.axes
        for split, title in AXES[axis].splits.items()
        if (table := result_table(publication, axis, split))
    }
    git = publication.record["git"] or {"commit": "not under Git", "modified": False}
    text = environment.get_template("model_card.md.jinja").render(
        publication=publication,
        model=params.models[publication.model],
        sampling=params.generate.structured,
        paper=PAPER,
        demo=params.experiment == "demo",
        request_code=request_code(publication),
        trained=[family.display_name for family in families if family.seen],
        held_out=[family.display_name for family in families if not family.seen],
        settings=training_settings(params, publication.method),
        tables=tables,
        commit=git["commit"] + (" with local changes" if git["modified"] else ""),
    )
    licence, base = publication.licence, None if publication.base_is_local else publication.report["checkpoint"]
    data = ModelCardData(
        base_model=base,
        base_model_relation=base and "adapter",
        license=licence.identifier,
        license_name=licence.name,
        license_link=licence.link,
        language="en",
        library_name="peft",
        pipeline_tag="text-generation",
        tags=["lora", "peft", "calibration-fine-tuning", "random-number-generation", f"arxiv:{PAPER}"],
    )
    try:
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")
    except ValueError as error:
        raise ArtifactError(f"huggingface_hub refuses the model card's metadata: {first_line(error)}") from None
