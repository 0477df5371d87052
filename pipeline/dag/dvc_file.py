"""dvc.yaml and code.yaml: what DVC is told of the stages and of their code."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from pipeline.artifacts.storage import sha256_json
from pipeline.config.params import Params
from pipeline.dag.code_digest import ALTERNATIVES, DIGITS, engines_besides, project_code
from pipeline.dag.declaration import Stage, fill
from pipeline.dag.stages import STAGES

HEADER = """\
# Every stage of the DAG. Written by `make params` from pipeline/dag/stages.py, which says more of each; do not edit.
#
# params.yaml has the settings, dag.yaml the tables that stages are repeated over (`foreach`; a stage that is left out
# has an empty table), code.yaml a digest of the code that each stage runs, so that a changed comment runs nothing and a
# changed computation runs whatever depends on it.
# DVC deletes a stage's outputs before it runs. What is costly or needed by it is `persist`: a stage that fails leaves
# the finished artifact of its last run. Unfinished work, in the artifacts' directory `unfinished`, is no output.
"""
CHECK = "check-params"
"""The stage that checks all others' code; its own needs no digest, because it depends on every file."""


class _Names(dict):
    """What stands for a name of a template in dvc.yaml: a key of params.yaml or dag.yaml, or an entry of the row."""

    def __missing__(self, name: str) -> str:
        return f"${{{name}}}" if name in ("artifacts", "reports") or name.startswith("dag.") else f"${{item.{name}}}"


def _filled(template: str) -> str:
    return fill(template, _Names())


def _outputs(paths: Iterable[str], keeps: bool) -> list[Any]:
    return [{_filled(path): {"persist": True}} if keeps else _filled(path) for path in paths]


def _definition(stage: Stage) -> dict[str, Any]:
    code = f"{stage.name}.${{engine.kind}}" if stage.runs_engine else stage.name
    keys = list(map(_filled, stage.parameters))
    parameters: list[Any] = keys if stage.name == CHECK else [*keys, {"code.yaml": [code]}]
    work = {
        "desc": stage.description,
        "cmd": stage.command(_filled),
        "deps": list(map(_filled, stage.inputs)),
        "params": parameters,
        "outs": _outputs(stage.outputs, stage.keeps),
        "metrics": [{_filled(stage.metrics): {"cache": False}}] if stage.metrics else [],
    }
    work = {key: value for key, value in work.items() if value}
    return {"foreach": f"${{dag.{stage.over}}}", "do": work} if stage.over else work


def stage_digest(stage: Stage, leave_out: Sequence[str] = ()) -> str:
    """Digest of the code of a stage and of its parts; ``leave_out`` are modules that do not count."""
    entries = [stage.entry, *dict.fromkeys(part.entry for part in stage.parts)]
    digests = [project_code().digest(entry, leave_out) for entry in entries]
    return digests[0] if len(digests) == 1 else sha256_json(digests)[:DIGITS]


def code_digests() -> dict[str, Any]:
    """The content of code.yaml: a digest by stage; by engine, too, for a stage that samples with one."""
    return {
        stage.name: {kind: stage_digest(stage, engines_besides(kind)) for kind in ALTERNATIVES}
        if stage.runs_engine
        else stage_digest(stage)
        for stage in STAGES.values()
        if stage.name != CHECK
    }


class _Dumper(yaml.SafeDumper):
    """YAML without references, so that every stage can be read by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _plots(params: Params) -> dict[str, dict[str, Any]]:
    """What `dvc plots` draws, by directory below the report's ``plots``."""
    return {
        "training_loss": {
            "x": "step",
            "y": [name for name, method in params.methods.items() if method.targets],
            "title": "Training loss",
            "y_label": "loss (nats)",
        },
        "pit": {
            "x": "pit",
            "y": [*params.conditions, "perfect"],
            "title": "Density of the PIT over all prompts",
            "y_label": "density",
        },
        "wasserstein_1": {
            "x": "wasserstein_1_normalised",
            "y": "bar",
            "template": "bar_horizontal",
            "title": "Normalised W1 by family",
        },
    }


def dvc_file_text(params: Params) -> str:
    """The content of dvc.yaml: the stages, the same under all parameters, and plots of the configured methods."""
    parts = [HEADER + "vars: [dag.yaml]\n", "\nstages:\n"]
    for stage in STAGES.values():
        text = yaml.dump({stage.name: _definition(stage)}, Dumper=_Dumper, sort_keys=False, width=118)
        parts.append("".join(f"  {line}" for line in text.splitlines(keepends=True)) + "\n")
    plots = [{f"${{reports}}/plots/{name}": settings} for name, settings in _plots(params).items()]
    parts.append(yaml.dump({"plots": plots}, Dumper=_Dumper, sort_keys=False, width=118))
    return "".join(parts)
