"""Compose ``conf/`` into ``params.yaml``: ``python -m pipeline.compose experiment=paper seed=1``.

The file is committed and must match ``conf/``. ``dag.yaml`` and ``code.yaml``, which follow from it and from the code,
are written beside it. ``--check`` says whether they match; so does the DAG's first stage.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from pipeline.artifacts.storage import write_if_changed
from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.evaluation import AXES
from pipeline.config.override_errors import composed_values
from pipeline.config.params import Params, SafeLoader, load_params, read_yaml, validate, with_conditions
from pipeline.dag.code_digest import code_digests
from pipeline.dag.declaration import fill
from pipeline.dag.graph import StageGraph
from pipeline.dag.tables import PARTS, dag_section, template_names
from pipeline.errors import ConfigError
from pipeline.sources.pin import unpinned

HEADERS = {
    "params.yaml": "# Composed from conf/ by `make params`; do not edit.\n# overrides:",
    "dag.yaml": "# What dvc.yaml repeats its stages over: follows from params.yaml, written by `make params`; do not "
    "edit.\n",
    "code.yaml": """\
# A digest of the code that each stage runs, written by `make params`; do not edit. It changes with what the code
# computes, not with comments, docstrings, formatting or the files that the code is in (pipeline/dag/code_digest.py).
""",
}
DERIVED_PROBLEMS = {
    "dag.yaml": "does not follow from params.yaml; a setting that adds or removes stages goes with "
    "`make params OVERRIDES=...`, not with `dvc exp run -S`",
    "code.yaml": "the stage's code computes something else than when this file was written; "
    "`python -m pipeline.compose --recorded` writes it anew for the parameters of params.yaml",
}
"""What is wrong, by the file that is not fresh."""


def _models(values: dict[str, Any], auto_dtype: str | None) -> dict[str, Any]:
    """The models, with what ``compat`` says of every one, and checkpoints of ``stand_ins``."""
    models, checkpoints = {}, values["stand_ins"]["checkpoints"]
    for name, model in values["models"].items():
        model = OmegaConf.to_container(OmegaConf.merge(model, values["compat"]["every_model"]))
        if checkpoints:
            stand_in = checkpoints.get(name, checkpoints.get(model["tokenizer"]))
            if stand_in is None:
                wanted = f"no entry for the model {name} or its tokenizer {model['tokenizer']}"
                raise ConfigError(f"stand_ins.checkpoints: {wanted}; there are {', '.join(checkpoints)}")
            model |= {"checkpoint": stand_in, "revision": None, "dtype": "float32"}
        if model["dtype"] == "auto":
            if auto_dtype is None:
                # It imports transformers, which takes seconds.
                from pipeline.engines.loading.model import machine_dtype

                auto_dtype = machine_dtype()
            model["dtype"] = auto_dtype
        models[name] = model
    return models


def compose_params(conf: Path, overrides: list[str], auto_dtype: str | None = None) -> dict[str, Any]:
    """Compose and validate; ``dtype: auto`` becomes ``auto_dtype``, by default what this machine computes in. Raises
    ConfigError for a bad override or value."""
    values = composed_values(conf, "config", overrides)
    values = with_conditions({**values, "compat": values["compat"]["name"], "models": _models(values, auto_dtype)})
    del values["stand_ins"]
    params = validate(values, source=str(conf))
    if "laws" in params.axes and not params.laws:
        raise ConfigError(f"{conf}: axes: laws needs a law; +laws.NAME=FILE names one")
    # In one order: the order in which axes are named changes nothing.
    return {**values, "axes": [axis for axis in AXES if axis in params.axes]}


def recorded_overrides(text: str) -> list[str]:
    """The overrides in a params.yaml header."""
    for line in text.splitlines():
        if line.startswith("# overrides:"):
            return shlex.split(line.removeprefix("# overrides:"))
    raise ConfigError("params.yaml has no '# overrides:' header line; `make params` writes it")


def render(values: dict[str, Any], overrides: list[str]) -> str:
    """The text of params.yaml."""
    return f"{HEADERS['params.yaml']} {shlex.join(overrides)}\n{yaml.safe_dump(values, sort_keys=False)}"


def derived_files(values: dict[str, Any]) -> dict[str, str]:
    """The texts of dag.yaml and code.yaml by name."""
    tables = {name: table for name, table in dag_section(validate(values)).items() if name != PARTS}
    contents = {"dag.yaml": {"dag": tables}, "code.yaml": code_digests()}
    return {name: HEADERS[name] + yaml.safe_dump(content, sort_keys=False) for name, content in contents.items()}


def first_difference(found: Any, expected: Any, key: str = "") -> str | None:
    """Dotted key of the first value that differs, or None."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return None if found == expected and type(found) is type(expected) else key
    for name in dict.fromkeys([*expected, *found]):
        inner = f"{key}.{name}" if key else str(name)
        if name not in found or name not in expected:
            return inner
        if difference := first_difference(found[name], expected[name], inner):
            return difference
    return None


def check_parts(params: Params) -> None:
    """Raise ConfigError where dvc.yaml lacks a file or parameter of a part of a stage: DVC would not know of it."""
    tables = dag_section(params)
    for node in StageGraph(params).values():
        for part, row in node.parts:
            names = template_names(row, params, tables)
            needed = {
                "deps": (part.inputs, {*node.dependencies, *node.outputs}, "/"),
                "outs": (part.outputs, node.outputs, "/"),
                "params": (part.parameters, node.parameters, "."),
            }
            for key, (templates, places, mark) in needed.items():
                for wanted in (fill(template, names) for template in templates):
                    if not any(f"{wanted}{mark}".startswith(f"{place}{mark}") for place in places):
                        stage = node.stage.name
                        raise ConfigError(f"dvc.yaml: {key} of {stage} lack {wanted}, of the part {part.name}")


def check_derived(params_path: Path) -> None:
    """Raise ConfigError unless dag.yaml and code.yaml are those of params.yaml and of the code."""
    directory, expected = params_path.parent, derived_files(read_yaml(params_path))
    for name, problem in DERIVED_PROBLEMS.items():
        place = directory / name
        if difference := first_difference(read_yaml(place), yaml.load(expected[name], SafeLoader)):
            raise ConfigError(f"{place}: {difference}: {problem}")


def check(params: Path, conf: Path) -> None:
    """Raise ConfigError unless params.yaml and what follows from it are fresh, and all that must be pinned is."""
    # In `dvc exp run -S` a params.yaml that departs from conf/ is what was asked for.
    if "DVC_EXP_NAME" not in os.environ:
        found, overrides = read_yaml(params), recorded_overrides(params.read_text())
        # Another machine may have composed it, which computes in another dtype.
        for dtype in ("bfloat16", "float32"):
            difference = first_difference(found, compose_params(conf, overrides, dtype))
            if difference is None:
                break
        else:
            raise ConfigError(
                f"{params}: {difference} is not what conf/ composes to; the file was edited by hand or conf/ has "
                f"changed. Run `make params`, or `dvc exp run -S {difference}=...` for a one-off change"
            )
    check_derived(params)
    loaded = load_params(params)
    check_parts(loaded)
    if loaded.require_pinned_revisions and (missing := unpinned(loaded)):
        raise ConfigError(
            f"{', '.join(missing)}: no commit, which experiment {loaded.experiment} requires "
            "(require_pinned_revisions); `make pin` writes the current ones into conf/ on a machine with network"
        )


def write_files(directory: Path, values: dict[str, Any], overrides: list[str]) -> None:
    """Write params.yaml, dag.yaml and code.yaml."""
    for name, text in {"params.yaml": render(values, overrides), **derived_files(values)}.items():
        write_if_changed(directory / name, text)


def main(
    overrides: list[str],
    check_only: bool,
    recorded: bool,
    params: Path = Path("params.yaml"),
    conf: Path = Path("conf"),
) -> None:
    """Write params.yaml and the files that follow from it; with ``check_only`` compare them."""
    if check_only:
        check(params, conf)
        return
    if recorded:
        overrides = recorded_overrides(params.read_text())
    values = compose_params(conf, overrides)
    check_parts(validate(values))
    write_files(params.parent, values, overrides)
    print(f"{params}: experiment {values['experiment']}, {len(values['models'])} model(s)", file=sys.stderr)


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.compose"))
