"""Compose ``conf/`` into ``params.yaml``: ``python -m pipeline.compose experiment=paper seed=1``.

DVC reads ``params.yaml`` and never composes, so the file is committed and must match
``conf/``. ``--check`` says whether it does; the DAG's first stage calls it.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.artifacts.storage import atomic_path, write_json
from pipeline.command import run_stage
from pipeline.config.evaluation import AXES
from pipeline.config.override_errors import explain
from pipeline.config.params import Params, load_params, validate
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from pipeline.runs.workspace import params_values
from pipeline.sources.pin import unpinned

HEADER = """\
# Composed from conf/ by `make params`; do not edit.
# overrides: {overrides}
"""


def swap_stand_ins(values: dict[str, Any]) -> dict[str, Any]:
    """Put stand-ins in the place of checkpoints, as the section ``stand_ins`` names them; the section ends here.

    Raises:
        ConfigError: A model has no stand-in although others have.
    """
    values = dict(values)
    checkpoints = values.pop("stand_ins")["checkpoints"]
    if not checkpoints:
        return values
    models = {}
    for name, model in values["models"].items():
        stand_in = checkpoints.get(name, checkpoints.get(model["tokenizer"]))
        if stand_in is None:
            raise ConfigError(
                f"stand_ins.checkpoints: no entry for the model {name} or its tokenizer "
                f"{model['tokenizer']}; there are {', '.join(checkpoints)}"
            )
        models[name] = {**model, "checkpoint": stand_in, "revision": None, "dtype": "float32"}
    return {**values, "models": models}


def compose_params(conf: Path, overrides: list[str]) -> dict[str, Any]:
    """Compose and validate. Raises ConfigError for a bad override or value."""
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            values = OmegaConf.to_container(compose("config", overrides=overrides), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"{conf}: {explain(error, conf, 'config', overrides)}") from None
    values = swap_stand_ins(values)
    params = validate(values, source=str(conf))
    # In one order: the order in which axes are named changes nothing.
    return {**values, "axes": [axis for axis in AXES if axis in params.axes], "dag": dag_section(params)}


def recorded_overrides(text: str) -> list[str]:
    """The overrides in a params.yaml header."""
    for line in text.splitlines():
        if line.startswith("# overrides: "):
            return shlex.split(line.removeprefix("# overrides: "))
    raise ConfigError("params.yaml has no '# overrides:' header line; `make params` writes it")


def render(values: dict[str, Any], overrides: list[str]) -> str:
    """The text of params.yaml."""
    return HEADER.format(overrides=shlex.join(overrides)).rstrip(" ") + yaml.safe_dump(values, sort_keys=False)


def first_difference(found: Any, expected: Any, key: str = "") -> str | None:
    """Dotted key of the first value that differs, or None."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in dict.fromkeys([*expected, *found]):
            inner = f"{key}.{name}" if key else str(name)
            if name not in found or name not in expected:
                return inner
            if difference := first_difference(found[name], expected[name], inner):
                return difference
        return None
    return None if found == expected and type(found) is type(expected) else key


def check_fresh(params_path: Path, conf: Path) -> None:
    """Raise ConfigError unless params.yaml is what conf/ composes to."""
    if not params_path.exists():
        raise ConfigError(f"{params_path} does not exist; `make params` writes it")
    text = params_path.read_text()
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{params_path} is not valid YAML ({str(error).splitlines()[0]})") from None
    expected = compose_params(conf, recorded_overrides(text))
    if difference := first_difference(found, expected):
        raise ConfigError(
            f"{params_path}: {difference} is not what conf/ composes to; the file was edited by hand or conf/ has "
            f"changed. Run `make params`, or `dvc exp run -S {difference}=...` for a one-off change"
        )


def _names(table: Any) -> Any:
    """A section without its texts: what remains says which stages there are."""
    if isinstance(table, dict):
        return {name: _names(inner) for name, inner in table.items()}
    return table if isinstance(table, list) else None


def check_stages(params_path: Path) -> None:
    """Raise ConfigError where a value was changed that stages come and go with, but not the section ``dag``."""
    found, expected = params_values(params_path).get("dag"), dag_section(load_params(params_path))
    if difference := first_difference(_names(found), _names(expected), "dag"):
        raise ConfigError(
            f"{params_path}: {difference} does not follow from the other values; a setting that adds or removes stages "
            "goes with `make params OVERRIDES=...`, not with `dvc exp run -S`"
        )


def check_pinned(params: Params) -> None:
    """Raise ConfigError where commits are required and something of the hub has none."""
    missing = unpinned(params) if params.require_pinned_revisions else []
    if missing:
        raise ConfigError(
            f"{', '.join(missing)}: no commit, which experiment {params.experiment} requires "
            "(require_pinned_revisions); `make pin` writes the current ones into conf/ on a machine with network"
        )


def main(overrides: list[str], params: Path, conf: Path, check: bool, recorded: bool, report: Path | None) -> None:
    """Write ``params``, or with ``check`` compare it with the composition and require commits where asked to."""
    if recorded:
        overrides = recorded_overrides(params.read_text())
    if not check:
        values = compose_params(conf, overrides)
        with atomic_path(params) as temporary:
            temporary.write_text(render(values, overrides))
        print(f"{params}: experiment {values['experiment']}, {len(values['models'])} model(s)", file=sys.stderr)
        return
    # In `dvc exp run -S` a params.yaml that departs from conf/ is what was asked for.
    if "DVC_EXP_NAME" not in os.environ:
        check_fresh(params, conf)
    else:
        check_stages(params)
    check_pinned(load_params(params))
    if report is not None:
        write_json(report, {"params_checked": True})


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. experiment=paper train.soft.epochs=5")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="file to write or check")
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="Hydra configuration directory")
    parser.add_argument("--check", action="store_true", help="fail unless params.yaml matches conf/")
    parser.add_argument("--recorded", action="store_true", help="take the overrides that --params was composed with")
    parser.add_argument("--report", type=Path, help="with --check: JSON file to write on success")
    return parser.parse_args()


if __name__ == "__main__":
    run_stage(main, parse_arguments())
