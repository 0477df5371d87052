"""The DAG under every choice of axes: no stage without its inputs, none for an axis that is off, none changed."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.compose import compose_params
from pipeline.config.evaluation import AXES
from pipeline.config.params import validate
from pipeline.dag.graph import StageGraph, lookup, read_definition
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from tests.conftest import ROOT

SUBSETS = [axes for size in range(1, 7) for axes in itertools.combinations(AXES, size)]
DEFINITION = read_definition(ROOT / "dvc.yaml")
SHARED = {
    "check_params",
    "build_prompts",
    "check_model",
    "preflight",
    "discretize",
    "build_tries",
    "train_soft",
    "train_hard",
    "report",
}
OF_AXIS = {
    "structured": {
        "discretize_eval",
        "floor_structured",
        "generate_structured",
        "score_structured",
        "exact_structured",
        "eval_structured",
        "generate_structured_baseline",
        "eval_structured_baseline",
    },
    "open": {"generate_open", "score_open", "eval_open", "generate_open_baseline", "eval_open_baseline"},
    "mcq": {"generate_mcq", "eval_mcq"},
    "novelty": {"build_novelty_prompts", "generate_novelty", "partition_novelty", "reward_novelty", "eval_novelty"},
    "retention": {"import_irt", "score_retention", "eval_retention"},
    "paloma": {"score_paloma", "eval_paloma"},
}


def values_of(*overrides: str) -> dict:
    return compose_params(ROOT / "conf", list(overrides))


@pytest.fixture(scope="module", params=["demo", "paper"])
def choices(request) -> tuple[dict, dict[tuple[str, ...], StageGraph]]:
    """Values of an experiment, its baselines all switched on, and its DAG by axes; of the paper's 725 stages a few."""
    names = ("ssot", "constrained", "batch", "verbalized")
    values = values_of(f"experiment={request.param}", *(f"generate.{name}.enabled=true" for name in names))
    subsets = SUBSETS if request.param == "demo" else [("structured",), ("open", "mcq", "retention"), AXES]
    return values, {axes: StageGraph(DEFINITION, with_axes(values, axes)) for axes in subsets}


def with_axes(values: dict, axes: tuple[str, ...]) -> dict:
    params = validate({key: value for key, value in values.items() if key != "dag"})
    return {**values, "axes": list(axes), "dag": dag_section(replace(params, axes=list(axes)))}


def test_every_stage_belongs_to_one_axis_or_to_all():
    assert sorted([*SHARED, *itertools.chain(*OF_AXIS.values())]) == sorted(DEFINITION["stages"])
    assert list(OF_AXIS) == list(AXES) and len(SUBSETS) == 63


def test_axes_decide_which_stages_exist_and_nothing_else(choices):
    experiment, graphs = choices
    for axes, graph in graphs.items():
        values = with_axes(experiment, axes)
        kinds = {node.kind for node in graph.values()}
        assert kinds == SHARED.union(*(OF_AXIS[axis] for axis in axes))
        # The same command, files and values: what is switched on again finds all that was made meanwhile.
        expected = {name: node for name, node in graphs[AXES].items() if node.kind in kinds}
        if "structured" not in axes:
            expected = {name: node for name, node in expected.items() if not name.endswith("-eval")}
        assert dict(graph) == expected
        for node in graph.values():
            changed = {key for key in node.parameters if lookup(values, key) != lookup(experiment, key)}
            assert changed <= ({"axes"} if node.name == "report" else set())


def test_every_input_is_made_or_in_the_repository_and_every_output_is_needed(choices):
    for axes, graph in choices[1].items():
        for name in graph:
            for source in graph.sources(name):
                assert (ROOT / source).exists(), f"{axes}: {name} needs {source}, which no stage makes"
        assert set(graph.closure(["report"])) == set(graph), axes


def test_the_composition_follows_the_axes_in_any_order():
    one, other = values_of("axes=[retention,mcq]"), values_of("axes=[mcq,retention]")
    assert one == other and one["axes"] == ["mcq", "retention"]
    dag = one["dag"]
    assert dag["axes"] == {
        "structured": [],
        "open": [],
        "mcq": ["mcq"],
        "novelty": [],
        "retention": ["retention"],
        "paloma": [],
    }
    assert {axis for axis, table in dag["conditions"].items() if table} == {"mcq", "retention"}
    assert set(dag["conditions"]["mcq"]) == {"embedded-base", "embedded-soft", "embedded-hard"}
    # The soft method trains on tries of its own; those for evaluation are for structured sampling.
    assert set(dag["tries"]) == {"embedded-soft"}
    assert dag["structured_baselines"] == {} == dag["open_baselines"]
    assert set(values_of("axes=[open]")["dag"]["open_baselines"]) == {"embedded-ssot"}
    assert values_of("axes=[open]")["dag"]["structured_baselines"] == {}
    assert set(values_of("axes=[structured]")["dag"]["tries"]) == {"embedded-soft", "embedded-eval"}


def test_a_stage_that_is_left_out_is_told_from_one_that_never_was():
    graph = StageGraph(DEFINITION, values_of("axes=[structured]"))
    for name in ("eval_novelty", "eval_novelty@embedded-base", "import_irt@retention", "generate_open_baseline"):
        with pytest.raises(ConfigError, match=f"the stage '{name}' is left out .*switched off \\(axes\\)"):
            graph.select([name])
    with pytest.raises(ConfigError, match="there is no stage 'eval_nov'; there are build_prompts"):
        graph.select(["eval_nov"])


def test_params_yaml_holds_the_table_of_conditions_once():
    text = Path(ROOT / "params.yaml").read_text()
    assert text.count("condition: hard") == 1 and text.count("\n    mcq: *id001\n") == 1
