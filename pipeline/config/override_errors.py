"""What is wrong with a Hydra override, in one sentence: the key or choice, the nearest ones, and what is allowed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.errors import ConfigError, did_you_mean

HOW_TO_ADD = {
    "models": "+model@models.NAME=NAME adds one of conf/model",
    "template_arguments": "a + in front of the override adds one",
    "revisions": "a + in front of the override adds one",
}
"""For sections whose keys are the user's own."""


def _choices(override: Override) -> list[Any]:
    """The values that an override names, quotes taken away: several where it is a sweep over a list."""
    value = override.value()
    values = value.list if isinstance(value, ChoiceSweep) else [value]
    return [item.text if isinstance(item, QuotedString) else item for item in values]


def _wrong_choice(override: Override, conf: Path) -> str | None:
    """What is wrong with the choice of a file of conf/, where the override is one."""
    group, groups = override.key_or_group, sorted(path.name for path in conf.iterdir() if path.is_dir())
    if group not in groups:
        if override.package is None:
            return None
        near = did_you_mean(group, groups)
        return f"{override.input_line}: there is no group {group!r}; {near}there are {', '.join(groups)}"
    known = sorted(path.stem for path in (conf / group).glob("*.yaml"))
    for choice in _choices(override):
        if isinstance(choice, str) and choice not in known:
            return f"{group}: there is no {choice!r}; {did_you_mean(choice, known)}there are {', '.join(known)}"
    return None


def _is_choice(override: Override, conf: Path) -> bool:
    """Whether the override chooses a file of conf/, or takes the choice away; a table for a group's keys does not."""
    group = (conf / override.key_or_group).is_dir()
    return group and (override.is_delete() or all(isinstance(item, str) for item in _choices(override)))


def _first_choice(override: Override) -> str:
    text = str(override.input_line)
    return text if override.is_delete() else f"{text.partition('=')[0]}={_choices(override)[0]}"


def _wrong_key(values: Any, key: Sequence[str], value: Any) -> str | None:
    """The first part of a dotted key, or of a table given for it, that ``values`` does not have."""
    node = values
    for depth, part in enumerate(key):
        place = ".".join(key[:depth])
        if not isinstance(node, Mapping):
            return f"{'.'.join(key)}: {place} is a value without keys"
        if part not in node:
            known = [str(name) for name in node]
            end = f"; {HOW_TO_ADD[key[depth - 1]]}" if depth and key[depth - 1] in HOW_TO_ADD else ""
            where = f"{did_you_mean(part, known)}the keys {f'of {place}' if place else 'here'} are {', '.join(known)}"
            return f"{'.'.join(key)}: there is no key {part!r}; {where}{end}"
        node = node[part]
    if isinstance(value, Mapping) and isinstance(node, Mapping):
        problems = (_wrong_key(values, (*key, str(name)), inner) for name, inner in value.items())
        return next(filter(None, problems), None)
    return None


def find_problem(conf: Path, primary: str, overrides: Sequence[str], several: bool = False) -> str | None:
    """The first override of ``primary`` that cannot be right, in a sentence; ``several``: of a multirun."""
    parsed = []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as error:
            if "=" not in text and not text.startswith("~"):
                return f"{text}: an override is KEY=VALUE"
            lines = [line for line in str(error).splitlines() if not line.startswith(("See ", "Error parsing "))]
            return f"{text}: cannot be read ({' '.join(lines)}); a text with brackets, braces or commas needs quotes"
        if override.key_or_group.split(".")[0].split("/")[0] == "hydra":
            continue
        if override.is_sweep_override() and not several:
            return f"{text}: several values are a sweep (python -m pipeline.sweep -m {text}); a list is KEY=[A,B]"
        if problem := _wrong_choice(override, conf):
            return problem
        parsed.append(override)
    # Groups are chosen before single values are set: a key may exist in the files chosen only.
    chosen = [_first_choice(item) for item in parsed if _is_choice(item, conf)]
    try:
        values = OmegaConf.to_container(_composed(conf, primary, chosen))
    except (HydraException, OmegaConfBaseException):
        return None
    for override in parsed:
        if _is_choice(override, conf) or override.is_add() or override.is_force_add():
            continue
        value = None if override.is_delete() or override.is_sweep_override() else override.value()
        if problem := _wrong_key(values, override.key_or_group.split("."), value):
            return problem
    return None


def _composed(conf: Path, primary: str, overrides: Sequence[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
        return compose(primary, overrides=list(overrides))


def composed_values(conf: Path, primary: str, overrides: Sequence[str], section: str | None = None) -> dict[str, Any]:
    """What Hydra composes, or a section of it. Raises ConfigError with what ``find_problem`` finds, or Hydra says."""
    try:
        found = _composed(conf, primary, overrides)
        return OmegaConf.to_container(found if section is None else found[section], resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        problem = find_problem(conf, primary, overrides) or " ".join(str(error).split())
        raise ConfigError(f"{conf}: {problem}") from None
