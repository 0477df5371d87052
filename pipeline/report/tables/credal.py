"""Tables of sets of laws: over decoding settings and wordings, and over a model's conditions and seeds."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.evaluation import DEFAULT_SETTING
from pipeline.config.params import Params
from pipeline.config.seeds import SEED_TITLES
from pipeline.core.random_streams import random_stream
from pipeline.core.semantics.credal_metrics import DIFFERENCES, MEMBER_COLUMNS, metric_rows, set_table, tabled_counts
from pipeline.metrics.registry import METRICS
from pipeline.record.provenance import join_sources
from pipeline.report.evaluations import EvaluationKey, Evaluations, display_names, methods_of, rows_of
from pipeline.report.tables.answers import QUESTIONS, differences_table
from pipeline.report.tables.seeds import difference_note
from pipeline.report.tables.table import DASH, ListTable, Table, detailed_table, interval_text, measure_of

_COLUMNS = (
    *("distance", "covered", "lower_entropy_nats", "upper_entropy_nats"),
    *("imprecision_nats", "between_entropy_nats", "diameter"),
)
_MORE = ("nearest_member", "within_entropy_nats", "people_within_bounds")
"""Of decoding settings as well; all are in metrics.csv."""
_FLOORS = {"distance": "Distance, inside", "between_entropy_nats": "Between, one law"}
"""Title of the column of each floor."""
_COVERED = (
    "Distance: total variation of people's law from the set; inside: what people whose law is in the set score. "
    "Between: Jensen-Shannon divergence of the members; one law: what members that all answer by one law score at "
    "these numbers of answers."
)


def credal_tables(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> list[Table]:
    """Sets of laws over decoding settings and over wordings, changes from base, published figures; those that exist."""
    members = {
        "all": ("credal", "decoding settings", "under the decoding settings", (*_COLUMNS, *_MORE)),
        "variants": ("credal_variants", "wordings", "to its own wording and to its paraphrases", _COLUMNS),
    }
    tables = []
    for split, (name, of, under, columns) in members.items():
        measures = []
        for column in columns:
            measures.append(measure_of(f"credal_{column}", split))
            if column in _FLOORS:
                title = _FLOORS[column]
                measures.append(measure_of(f"credal_{column}", split, title=title, field="floor", bold=False))
        changes = [measure_of(f"credal_{column}_difference", split) for column in DIFFERENCES]
        note = f"The set of a question holds all mixtures of the model's laws {under}. {_COVERED} {QUESTIONS}"
        caption = f"Sets of laws over {of}"
        tables += [
            detailed_table(name, caption, f"{note} Bold: best condition.", metrics, models, measures, conditions),
            differences_table(name, caption, metrics, models, changes, conditions),
        ]
    tables.append(_published_table(metrics, models, conditions))
    return [table for table in tables if table is not None]


def _published_table(metrics: pd.DataFrame, models: Mapping[str, str], conditions: Sequence[str]) -> Table | None:
    measures = [measure_of(f"published_{name}") for name in ("volume", "overlap", "hausdorff")]
    measures.insert(1, measure_of("published_volume", title="Volume of people's", field="floor"))
    measures += [measure_of(f"published_referenced_{name}") for name in ("volume", "overlap", "hausdorff")]
    measures.append(measure_of("published_decoding_share"))
    measures.append(measure_of("published_decoding_share", title="By chance", field="floor"))
    note = (
        "Not sets of laws: hulls of statistics of the answers' diversity, a point for each question, default setting, "
        "means over groups of three statistics whose hulls are not flat. Each source standardised by itself, which "
        "removes location and scale, so that the figures cannot tell a model from people by either; then in people's "
        "units. Overlap counts vertices near vertices. Decoding share: eta squared of the decoding settings. Other "
        "settings and single groups: metrics.csv. No intervals: a hull of fewer questions is smaller."
    )
    return detailed_table(
        "credal_published", "Sets as published (arXiv:2509.23088)", note, metrics, models, measures, conditions
    )


def condition_sets(evaluations: Evaluations, params: Params) -> ListTable | None:
    """The set over the conditions of each model, under the default setting; None where no model has two."""
    records = []
    for model in params.models:
        answers = _default_answers(evaluations, model, params.conditions)
        answers = answers.assign(member=answers["condition"])
        sources = [
            evaluations.sources[EvaluationKey("credal", model, condition)] for condition in answers["member"].unique()
        ]
        records += _set_records(answers, sources, params, (model, "", "conditions"))
    note = (
        "The set of a question holds all mixtures of the laws of the model's conditions (Members), each under the "
        f"default decoding setting. {_COVERED} {QUESTIONS}"
    )
    return _set_list("credal_conditions", "Sets of laws over conditions", records, params, note)


def seed_sets(seeds: Mapping[int, Evaluations], params: Params, varied: Sequence[str]) -> ListTable | None:
    """The set over the seeds of each model and condition, under the default setting; None where none has two.

    Args:
        seeds: Evaluations of the same settings by seed.
        params: The parameters.
        varied: The seeds that differ, by their keys; the first is that of ``seeds``.
    """
    records = []
    for model, condition in itertools.product(params.models, params.conditions):
        parts, sources = [], []
        for seed, found in seeds.items():
            own = _default_answers(found, model, [condition])
            if len(own):
                parts.append(own.assign(member=str(seed)))
                sources.append(found.sources[EvaluationKey("credal", model, condition)])
        if parts:
            answers = pd.concat(parts, ignore_index=True)
            records += _set_records(answers, sources, params, (model, condition, "seeds"))
    title = f"{SEED_TITLES[varied[0]].lower()}s"
    note = (
        f"The set of a question holds all mixtures of the condition's laws under its {title} (Members), each under the "
        f"default decoding setting. {_COVERED} {QUESTIONS} {difference_note(varied, methods_of(params.conditions))}"
    )
    return _set_list("credal_seeds", f"Sets of laws over {title}", records, params, note)


def _default_answers(evaluations: Evaluations, model: str, conditions: Sequence[str]) -> pd.DataFrame:
    """Answers by class under the default setting, and people's: ``model``, ``condition`` and MEMBER_COLUMNS."""
    table = evaluations.stacked("credal", "members", MEMBER_COLUMNS, [model], conditions)
    return table[(table["kind"] == "people") | (table["member"] == DEFAULT_SETTING)]


def _set_records(
    answers: pd.DataFrame, sources: Sequence[str], params: Params, names: tuple[str, str, str]
) -> list[dict[str, Any]]:
    """Rows of metrics of a set of two members or more, with ``names`` (model, condition, kind) and its provenance."""
    people = rows_of(answers, kind="people").drop_duplicates(["prompt_id", "label"])
    partition = params.evaluate.partition
    if partition is not None and partition.rule == "entailment":
        # Classes that are not people's are named anew in each condition: by other labels the same answers differ.
        answers = answers[answers["prompt_id"].isin(people["prompt_id"])]
    members = rows_of(answers, kind="settings")
    listed = list(members["member"].unique())
    counts = tabled_counts(members, people) if len(listed) > 1 else {}
    if not counts:
        return []
    model, condition, kind = names
    table = set_table(counts, random_stream(params.seed, "band", "credal", *names))
    rows = metric_rows(
        table, None, seed=params.seed, names=("credal", *names), replicates=params.evaluate.bootstrap_replicates
    )
    labels = {"axis": "credal", "model": model, "condition": condition, "split": kind, "members": " ".join(listed)}
    return [{**labels, **row, "provenance": join_sources(sources)} for row in rows]


def _set_list(
    name: str, caption: str, records: Sequence[dict[str, Any]], params: Params, note: str
) -> ListTable | None:
    if not records:
        return None
    frame, rows = pd.DataFrame(records).drop(columns="family"), []
    titles = {column: METRICS[f"credal_{column}"].column_title for column in _COLUMNS}
    header = ["Model", "Condition", "Members", "Questions"]
    for column, title in titles.items():
        header += [title, _FLOORS[column]] if column in _FLOORS else [title]
    for (model, condition, members), own in frame.groupby(["model", "condition", "members"], sort=False):
        found = {row.metric: row for row in own.itertuples()}
        asked = found["credal_imprecision_nats"].n
        row = [display_names(params)[model], condition, members.replace(" ", ", "), str(asked)]
        for column in titles:
            value = found[f"credal_{column}"]
            row.append(_value_text(value))
            row += [f"{value.floor:.3f}" if math.isfinite(value.floor) else DASH] if column in _FLOORS else []
        rows.append(row)
    if not frame["condition"].any():
        header, rows = [header[0], *header[2:]], [[row[0], *row[2:]] for row in rows]
    return ListTable(name, caption, header, rows, header.index("Questions") + 1, frame, note)


def _value_text(row: Any) -> str:
    if not math.isfinite(row.value):
        return DASH
    interval = f" {interval_text(row.ci_low, row.ci_high, 3, '')}" if math.isfinite(row.ci_low) else ""
    return f"{row.value:.3f}{interval}"
