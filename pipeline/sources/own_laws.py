"""Laws of a user's own, from the files that the section ``laws`` names."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml
from scipy import stats

from pipeline.config.laws import (
    CategoricalLawConfig,
    ChoiceLawConfig,
    ScipyLawConfig,
    TableLawConfig,
    TemplatesConfig,
)
from pipeline.config.params import validate
from pipeline.core.laws.family import Law
from pipeline.core.laws.finite_law import FiniteLaw, categorical_law, numeric_law, smoothed_law
from pipeline.core.prompts.choices import check_choice_template, make_choice
from pipeline.core.prompts.structured import Prompt, prompt_id, template_fields
from pipeline.core.random_streams import random_stream
from pipeline.errors import ArtifactError, ConfigError, DomainError

PROBABILITY = "probability"
"""A column of weights of this name must sum to 1; any other holds counts."""
KINDS = ("scipy", "categorical", "empirical", "conditional", "choice")
MOST_REPEATED = 100  # choices in a row that were made before; no further one is looked for then
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


class LawCase(NamedTuple):
    """One law of a file; ``fields`` are what templates may say of it."""

    fields: Mapping[str, str | int | float]
    law: Law | FiniteLaw
    held_out: bool = False


def own_prompts(laws: Mapping[str, str], project: Path = Path()) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on and those of the axis laws, of files by name below ``project``. Raises ConfigError for a file
    that is no law's, ArtifactError for a table that has not what the law says."""
    train: list[Prompt] = []
    test: list[Prompt] = []
    for name, file in laws.items():
        content = _read_law(name, project / file)
        try:
            if isinstance(content, ChoiceLawConfig):
                trained, tested = _choice_prompts(name, content)
            else:
                trained, tested = _law_prompts(name, *content)
        except DomainError as error:
            raise ConfigError(f"{file}: templates: {error}") from None
        train += trained
        test += tested
    asked: dict[str, str] = {}
    for prompt in test:
        if asked.setdefault(prompt.text, prompt.family) != prompt.family:
            raise ConfigError(f"laws: {asked[prompt.text]} and {prompt.family} both ask {prompt.text!r}")
    return train, test


def _law_prompts(law: str, templates: TemplatesConfig, cases: Sequence[LawCase]) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on, and those of the axis laws: held-out cases are asked with the held-out templates, or with
    the others where there are none. A template must name every field whose values differ."""
    trained = [case for case in cases if not case.held_out]
    if not trained:
        raise DomainError("every law is held out, so there is nothing to train on")
    fields = cases[0].fields
    varied = [name for name in fields if len({case.fields[name] for case in cases}) > 1]
    for template in (*templates.train, *templates.test):
        named = template_fields(template, fields)
        if missing := [name for name in varied if name not in named]:
            raise DomainError(f"the template {template!r} is without its field {{{missing[0]}}}")

    def prompts(split: str, templates: Sequence[str], cases: Sequence[LawCase]) -> list[Prompt]:
        return [
            Prompt(prompt_id(law, text), split, law, "", dict(case.fields), text, case.law)
            for case in cases
            for text in (template.format(**case.fields) for template in templates)
        ]

    held_out = [case for case in cases if case.held_out]
    test = [
        *prompts("seen_template", templates.train, trained),
        *prompts("held_out_template", templates.test, trained),
        *prompts("held_out_field", templates.test or templates.train, held_out),
    ]
    for text, count in Counter(prompt.text for prompt in test).items():
        if count > 1:
            raise DomainError(f"the request {text!r} is made twice")
    return prompts("train", templates.train, trained), test


def _choice_prompts(law: str, config: ChoiceLawConfig) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on, and those of the axis laws: like those trained on, and with templates, words or forms of
    chances that are held out. No request is made twice."""
    templates, words, chances = config.templates, config.words, config.chances
    fields = [check_choice_template(template) for template in templates.train]
    with_chances = [
        t for t, named in zip(templates.train, fields, strict=True) if named & {"chance_a", "weighted", "coins"}
    ]
    if chances.test and not with_chances:
        raise DomainError("chances.test is held out, and no template of train names {chance_a}, {weighted} or {coins}")
    made: dict[str, Prompt] = {}

    def prompts(split: str, texts: Sequence[str], words: Sequence[str], forms: Sequence[str], number: int) -> None:
        rng, goal, again = random_stream(config.seed, "choices", split), len(made) + number, 0
        while texts and forms and len(made) < goal:
            place = len(made) % len(texts)
            most, only_words = config.max_options, config.only_words or split == "held_out_words"
            text, answers, about = make_choice(texts[place], place, words, forms, most, rng, only_words)
            again = again + 1 if text in made else 0
            if again == MOST_REPEATED:
                raise DomainError(f"templates, words and chances do not make {number} different requests for {split}")
            made.setdefault(text, Prompt(prompt_id(law, text), split, law, "", about, text, answers))

    prompts("train", templates.train, words.train, chances.train, config.requests_per_template * len(templates.train))
    prompts("seen_template", templates.train, words.train, chances.train, config.test_requests)
    prompts("held_out_template", templates.test, words.train, chances.train, config.test_requests)
    prompts("held_out_words", templates.train if words.test else [], words.test, chances.train, config.test_requests)
    prompts("held_out_chances", with_chances, words.train, chances.test, config.test_requests)
    trained = [prompt for prompt in made.values() if prompt.split == "train"]
    return trained, [prompt for prompt in made.values() if prompt.split != "train"]


def _read_law(name: str, path: Path) -> ChoiceLawConfig | tuple[TemplatesConfig, list[LawCase]]:
    if not path.is_file():
        raise ConfigError(f"laws.{name}: {path} does not exist; give the path of a law's file (.yaml)")
    try:
        content = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind not in KINDS:
        raise ConfigError(f"{path}: kind: got {kind!r}; {', '.join(KINDS)} are allowed")
    try:
        if kind == "choice":
            return validate(content, ChoiceLawConfig, str(path))
        if kind == "scipy":
            config = validate(content, ScipyLawConfig, str(path))
            cases = _scipy_cases(config)
        elif kind == "categorical" and "table" not in content:
            config = validate(content, CategoricalLawConfig, str(path))
            cases = [LawCase({}, categorical_law(config.probabilities, config.spellings))]
        else:
            config = validate(content, TableLawConfig, str(path))
            cases = _table_cases(config, path)
    except DomainError as error:
        raise ConfigError(f"{path}: {error}") from None
    return config.templates, cases


def _scipy_cases(config: ScipyLawConfig) -> list[LawCase]:
    distribution = getattr(stats, config.distribution, None)
    if not isinstance(distribution, stats.rv_continuous | stats.rv_discrete):
        raise DomainError(f"distribution: scipy.stats has no distribution {config.distribution!r}")
    shapes = [part.strip() for part in (distribution.shapes or "").split(",") if part.strip()]
    allowed = [*shapes, "loc", *(["scale"] if isinstance(distribution, stats.rv_continuous) else [])]
    given = set(config.parameters)
    if not set(shapes) <= given <= set(allowed) or not set(config.held_out) <= given:
        raise DomainError(
            f"parameters: {config.distribution} takes {', '.join(allowed)} and needs {', '.join(shapes) or 'none'}, "
            f"got {', '.join(config.parameters)} (held_out: {', '.join(config.held_out) or 'none'})"
        )
    names = tuple(config.parameters)
    trained = [value if isinstance(value, list) else [value] for value in config.parameters.values()]
    held_out = [config.held_out.get(key, []) for key in names]
    cases = []
    for values in itertools.product(*(dict.fromkeys(own + new) for own, new in zip(trained, held_out, strict=True))):
        point = dict(zip(names, map(float, values), strict=True))
        law = Law(config.distribution, point)
        if np.isnan(law.support).any():
            raise DomainError(f"parameters: SciPy rejects {point}")
        new = any(value in others for value, others in zip(values, held_out, strict=True))
        # Whole numbers are written as such.
        fields = {key: int(value) if value == int(value) else value for key, value in point.items()}
        cases.append(LawCase(fields, law, new))
    return cases


def _read_rows(path: Path) -> pd.DataFrame:
    """A table with every cell as text."""
    if path.suffix != ".csv":
        raise ConfigError(f"{path}: a table is a file .csv")
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist")
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} is not a table ({error})") from None


def _table_cases(config: TableLawConfig, path: Path) -> list[LawCase]:
    if (config.kind == "conditional") != bool(config.fields):
        raise DomainError("fields: conditional laws need one or more columns, other laws have none")
    table = path.parent / config.table
    # DVC watches the directory of the laws' files.
    if not table.resolve().is_relative_to(path.parent.resolve()):
        raise DomainError(f"table: {config.table} must lie beside the law's file")
    rows = _read_rows(table)
    for name in filter(None, (config.column, *config.fields, config.weight)):
        if name not in rows:
            raise ArtifactError(f"{table}: there is no column {name!r}; its columns are {', '.join(map(str, rows))}")
        if empty := np.flatnonzero(rows[name].str.strip() == "").tolist():
            raise ArtifactError(f"{table}: column {name!r} has an empty cell (row {empty[0] + 1})")
    if rows.empty:
        raise ArtifactError(f"{table}: column {config.column!r} is empty")
    weights = pd.Series(1.0, index=rows.index)
    if config.weight:
        weights = pd.to_numeric(rows[config.weight], errors="coerce")
        if wrong := np.flatnonzero(~(weights > 0)).tolist():
            got = f"got {rows[config.weight].iloc[wrong[0]]!r} (row {wrong[0] + 1})"
            raise ArtifactError(f"{table}: column {config.weight!r} must hold numbers above 0, {got}")
    held_out = {name: set(map(str, values)) for name, values in config.held_out.items()}
    for name, values in held_out.items():
        if name not in config.fields:
            raise DomainError(f"held_out.{name}: unknown field; there are {', '.join(config.fields) or 'none'}")
        if missing := sorted(values - set(rows[name])):
            raise DomainError(f"held_out.{name}: no row of {config.table} has the value {missing[0]!r}")
    decimals, cases = _decimals(config, rows[config.column]), []
    for key, members in rows.groupby(config.fields, sort=False) if config.fields else [((), rows)]:
        fields = dict(zip(config.fields, key, strict=True))
        try:
            law = _table_law(config, members[config.column], weights[members.index], decimals)
        except DomainError as error:
            place = ", ".join(f"{name}={value}" for name, value in fields.items())
            raise ArtifactError(f"{table}: {place}: {error}" if place else f"{table}: {error}") from None
        new = any(value in held_out.get(name, ()) for name, value in fields.items())
        cases.append(LawCase(fields, law, new))
    return cases


def _decimals(config: TableLawConfig, column: pd.Series) -> int | None:
    """Digits behind the point of a column of numbers; None for a column of categories."""
    if config.kind != "categorical" and all(map(_NUMBER.fullmatch, column)):
        most = max(len(text.partition(".")[2]) for text in column)
        return most if config.decimals is None else config.decimals
    if config.decimals is not None or config.smoothing != "none":
        raise DomainError(f"decimals and smoothing are for numbers, and column {config.column!r} holds texts")
    return None


def _table_law(config: TableLawConfig, column: pd.Series, weights: pd.Series, decimals: int | None) -> FiniteLaw:
    given = config.weight == PROBABILITY
    total = float(weights.sum())
    if decimals is None:
        mass = weights.groupby(column, sort=False).sum()
        if given and len(mass) < len(column):
            raise DomainError(f"{column[column.duplicated()].iloc[0]!r} is there twice")
        probabilities = (mass if given else mass / total).to_dict()
        spellings = {name: texts for name, texts in config.spellings.items() if name in probabilities}
        if not config.fields and (unknown := [name for name in config.spellings if name not in probabilities]):
            raise DomainError(f"spellings of {unknown[0]!r}, which has no probability")
        return categorical_law(probabilities, spellings)
    # Only counts and rows are normalised: probabilities are meant as they stand.
    if given and abs(total - 1) > 1e-6:
        raise DomainError(f"the probabilities sum to {total:.6g}, which is {abs(total - 1):.3g} off 1")
    values = column.astype(float).to_numpy()
    if config.smoothing == "kernel":
        return smoothed_law(values, weights.to_numpy(), decimals)
    indices, places = np.unique(np.rint(values * 10**decimals).astype(np.int64), return_inverse=True)
    return numeric_law(indices, np.bincount(places, weights=weights), decimals)
