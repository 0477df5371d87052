"""The DAG under every choice of axes: no stage without its inputs, none for an axis that is off, none changed."""

import itertools
from dataclasses import replace

import pytest

from pipeline.config.evaluation import AXES
from pipeline.config.params import validate
from pipeline.config.view import look_up
from pipeline.dag.graph import StageGraph, StageNode
from pipeline.errors import ConfigError
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SUBSETS = [*((axis,) for axis in AXES), *itertools.combinations(AXES, len(AXES) - 1), AXES]
"""Every axis by itself, and left out."""
LAW = "+laws.destination=data/laws/destination.yaml"


def values_of(*overrides: str) -> dict:
    return composed_params("methods=paper", *overrides)


@pytest.fixture(scope="module", params=["demo", "paper"])
def choices(request) -> tuple[dict, dict[tuple[str, ...], StageGraph]]:
    """Values of an experiment, all baselines and methods switched on, and its DAG by axes: few for the paper."""
    names = ("ssot", "constrained")
    methods = (f"+method@methods.{name}={name}" for name in ("anchored", "mixed"))
    values = values_of(
        f"experiment={request.param}", *(f"generate.{name}.enabled=true" for name in names), *methods, LAW
    )
    subsets = SUBSETS if request.param == "demo" else [("structured",), ("open", "mcq", "retention"), AXES]
    params = validate(values)
    return values, {axes: StageGraph(replace(params, axes=list(axes))) for axes in subsets}


def weights(node: StageNode) -> set[tuple[str, str, str]]:
    """What each part of a run takes to the checkpoint, by part and condition."""
    return {(part.name, row["condition"], row["weights"]) for part, row in node.parts if "weights" in row}


def test_axes_decide_what_stages_do_and_nothing_else(choices):
    """What is switched on again finds all that was made meanwhile: commands, files and parameters are the same."""
    experiment, graphs = choices
    for axes, graph in graphs.items():
        values = {**experiment, "axes": list(axes)}
        own = {part.axis for node in graph.values() for part, _ in node.parts} & {*AXES}
        assert own <= {*axes}
        # Baselines are of two axes, and constrained decoding of structured sampling alone.
        missing = set(graphs[AXES]) - set(graph)
        assert all(name.startswith("generate-baselines@") for name in missing)
        for name, node in graph.items():
            other = graphs[AXES][name]
            assert (node.command, node.outputs, node.parameters) == (other.command, other.outputs, other.parameters)
            assert weights(node) <= weights(other)
            changed = {key for key in node.parameters if look_up(values, key) != look_up(experiment, key)}
            assert changed <= {"axes"}


def test_every_input_is_made_or_in_the_repository_and_every_output_is_needed(choices):
    for axes, graph in choices[1].items():
        for name in graph:
            for source in graph.sources(name):
                assert (ROOT / source).exists(), f"{axes}: {name} needs {source}, which no stage makes"
        assert set(graph.closure(["report"])) == {name for name in graph if "profile" not in name}, axes


def test_a_stage_that_is_left_out_is_told_from_one_that_never_was():
    graph = StageGraph(validate(values_of("axes=[structured]")))
    with pytest.raises(ConfigError, match="the stage 'train-mixed' is left out under these parameters"):
        graph.select(["train-mixed"])
    with pytest.raises(ConfigError, match="no stage 'eval-nov'; did you mean eval-novelty.*there are build-prompts, b"):
        graph.select(["eval-nov"])
    with pytest.raises(ConfigError, match="no stage 'generate@embedded-basic'; did you mean generate@embedded-base"):
        graph.select(["generate@embedded-basic"])


def test_an_evaluation_waits_for_all_conditions_of_its_model(choices):
    graph = choices[1][AXES]
    model = next(iter(choices[0]["models"]))
    baselines = {"structured": ("ssot", "constrained"), "open": ("ssot",)}
    kinds = {"structured": ("generate", "score"), "mcq": ("generate",), "retention": ("score",), "novelty": ("judge",)}
    for axis, stages in kinds.items():
        read = {
            name for name in graph.upstream(f"eval-{axis}@{model}") if name.startswith(("generate", "score", "judge"))
        }
        conditions = [f"-{name}" for name in ("base", "soft", "hard", "anchored", "mixed")]
        expected = {f"{stage}@{model}{c}" for stage in stages for c in (conditions if stage != "judge" else [""])}
        expected |= {f"generate-baselines@{model}-{baseline}" for baseline in baselines.get(axis, ())}
        assert read == expected, axis


def test_one_condition_asks_for_nothing_of_the_others():
    own = ("methods=hard", "conditions=[hard]", "generate.ssot.enabled=false")
    graph = StageGraph(validate(composed_params(*own)))
    sampled = {name for name in graph if name.startswith(("train-", "generate", "score"))}
    # Divergences on other texts are from base, along base's replies.
    assert {name for name in sampled if not name.endswith("-hard")} == {"train-hard@embedded", "generate@embedded-base"}
    assert {part.name for part, _ in graph["generate@embedded-base"].parts} == {"generate-anchors"}
    without = StageGraph(validate(composed_params(*own, "axes=[structured,open,mcq]")))
    assert {node.row["condition"] for node in without.values() if "condition" in node.row} == {"hard"}
    # A method that is trained and not evaluated, e.g. for another that is merged from it.
    merged = StageGraph(validate(composed_params("methods=paper", "conditions=[base,soft]", "axes=[mcq]")))
    assert "train-hard@embedded" in merged and "generate@embedded-hard" not in merged
    with pytest.raises(ConfigError, match="conditions: got soft; give null for all, or a list of base, hard"):
        composed_params("methods=hard", "conditions=[soft]")
