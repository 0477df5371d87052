"""Every stage of dvc.yaml, and every part of one, against its code and the parameters."""

import importlib
import inspect
import shlex
from dataclasses import replace

import pytest

from pipeline.compose import check_parts
from pipeline.config.evaluation import AXES
from pipeline.config.params import Params, read_yaml, validate
from pipeline.config.seeds import SEEDS
from pipeline.config.view import look_up
from pipeline.dag.code_digest import project_code
from pipeline.dag.declaration import Stage, fill, flat
from pipeline.dag.execution import find_run
from pipeline.dag.graph import StageGraph
from pipeline.dag.stage_kinds import PARAMS_CHECKED, PREFLIGHT, evaluation_name
from pipeline.dag.stages import DECLARED, PIECES, STAGES
from pipeline.dag.tables import dag_section, rows_of, template_names
from pipeline.errors import ConfigError
from tests.composition import composed_params
from tests.conftest import ROOT

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "pipeline").rglob("*.py")
    if "\n    command_line()\n" in path.read_text()
}
IN_THE_REPORT = {"tables", "figures", "page", "plots"}
"""Outputs that lie beside metrics.csv, whose directory the report is written into."""
EVERYTHING = (
    f"axes=[{','.join(AXES)}]",
    "+laws.destination=data/laws/destination.yaml",
    *(f"generate.{name}.enabled=true" for name in ("ssot", "constrained")),
    "profile_construction=true",
    *(f"+method@methods.{name}={name}" for name in ("anchored", "mixed")),
)


@pytest.fixture(scope="module", params=["demo", "paper"])
def values(request) -> dict:
    """All stages there can be: every baseline, method and the measurement of construction are switched on."""
    return composed_params(f"experiment={request.param}", *EVERYTHING)


@pytest.fixture(scope="module")
def params(values) -> Params:
    return validate(values)


def test_every_stage_module_is_declared_and_every_declaration_has_one():
    assert {stage.module_name for stage in DECLARED.values()} == MODULES
    assert all(stage.description and not stage.description.endswith(".") for stage in DECLARED.values())


def test_training_and_sampling_have_seeds_of_their_own():
    roots = {stage.name: [key for key in SEEDS if key in stage.parameters] for stage in PIECES.values()}
    assert roots.pop("report") == list(SEEDS)
    for name, found in roots.items():
        kind = name.partition("-")[0]
        own = {"train": ["train_seed"], "generate": ["sampling_seed"], "sample": ["sampling_seed"]}.get(kind)
        assert found in ([own] if own else [[], ["seed"]]), name


def test_every_declared_path_and_name_is_a_parameter_of_main():
    for stage in PIECES.values():
        offered = {*stage.constants, *stage.chosen_by, *stage.reads, *stage.writes}
        unused = offered - set(inspect.signature(importlib.import_module(stage.module_name).main).parameters)
        assert unused == (IN_THE_REPORT if stage.name == "report" else set()), stage.name
    report = STAGES["report"].writes
    beside = report["metrics"].removesuffix("metrics.csv")
    assert all(report[name].startswith(beside) for name in IN_THE_REPORT)


def test_paths_on_commands_are_dependencies_and_outputs():
    """A path that is written in two ways in dvc.yaml is neither, and would pass for a constant or a precondition."""
    for stage in STAGES.values():
        if not stage.parts:
            assert stage.constants.keys() <= {"space", "axis"}, stage.name
            assert {*stage.after} <= {PREFLIGHT, PARAMS_CHECKED}, stage.name
            named = {*flat(stage.reads), *flat(stage.writes), stage.records, stage.metrics}
            assert {*stage.outputs} <= named and stage.writes, stage.name


def test_a_stage_depends_on_all_that_its_parts_depend_on(params):
    """DVC starts a stage if anything has changed for a part, and knows of all that a part writes."""
    check_parts(params)
    part = replace(STAGES["generate"].parts[0], parameters=("tests.significance",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STAGES, "generate", replace(STAGES["generate"], parts=(part,)))
        with pytest.raises(ConfigError, match=r"params of generate lack tests\.significance, of the part gen"):
            check_parts(params)


def test_the_engine_is_a_parameter_of_what_samples_and_of_nothing_else():
    engine = "pipeline.engines.sampling.transformers_engine"
    for stage in PIECES.values():
        assert ("engine.kind" in stage.parameters) == (engine in project_code().reach(stage.module_name)), stage.name


def test_every_parameter_exists(params, values):
    tables = dag_section(params)
    for stage in DECLARED.values():
        rows = rows_of(stage.over, params, tables)
        assert rows, f"{stage.name} does not exist although everything is switched on"
        for row in rows.values():
            names, templates = template_names(row, params, tables), (*stage.parameters, *stage.free_parameters)
            keys = [fill(key, names) for key in templates]
            # The first target of a method and its last one may be the same.
            one_target = names.get("first_target") == names.get("last_target")
            repeated = [key for key in templates if one_target and "{last_target}" in key]
            assert len(set(keys)) == len(keys) - len(repeated), stage.name
            for key in keys:
                look_up(values, key)


def test_a_command_line_names_the_run_that_it_is_of(params):
    by_module: dict[str, list[Stage]] = {}
    for stage in STAGES.values():
        by_module.setdefault(stage.module, []).append(stage)
    graph = StageGraph(params)
    # All of the models' stages are alike: of a stage's hundreds of runs the first and the last.
    by_stage: dict[str, list] = {}
    for node in graph.values():
        by_stage.setdefault(node.stage.name, []).append(node)
    for nodes in by_stage.values():
        for node in (nodes[0], nodes[-1]):
            words = shlex.split(node.command)
            assert words[:3] == ["python", "-m", node.stage.module_name]
            wanted = (*node.stage.constants, *node.stage.chosen_by)
            names = {name: words[words.index(f"--{name}") + 1] for name in wanted}
            run = find_run(by_module[node.stage.module], params, names)
            assert (run.stage, run.row) == (node.stage, node.row)


def test_every_axis_has_an_evaluation_although_it_is_off():
    """DVC runs the whole DAG for a group without members."""
    graph = StageGraph(validate(composed_params("experiment=everything", "axes=[mcq]")))
    for name in (*map(evaluation_name, AXES), "profile-construction"):
        assert graph.select([name]), name


def test_dvc_is_told_of_code_and_of_what_survives_a_failure():
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    for stage in STAGES.values():
        definition = stages[stage.name].get("do", stages[stage.name])
        files = [entry for entry in definition.get("params", []) if isinstance(entry, dict)]
        assert files == ([] if stage.name == "check-params" else [{"code.yaml": [stage.name]}])
        kept = [isinstance(output, dict) for output in definition["outs"]]
        assert all(kept) if stage.keeps else not any(kept)
        # No code among the dependencies: a changed comment runs nothing.
        if stage.name != "check-params":
            assert not any(path.endswith(".py") for path in definition["deps"]), stage.name
