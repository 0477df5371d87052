"""The DAG under every choice of axes: no stage without its inputs, none for an axis that is off, none changed."""

import itertools
from dataclasses import replace

import pytest

from pipeline.config.evaluation import AXES
from pipeline.config.params import validate
from pipeline.config.view import look_up
from pipeline.dag.dvc_command import refuse_old_names
from pipeline.dag.graph import StageGraph
from pipeline.dag.stages import STAGES
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

NEIGHBOURS = {tuple(sorted(pair, key=AXES.index)) for pair in zip(AXES, (*AXES[1:], AXES[0]), strict=True)}
SUBSETS = [*((axis,) for axis in AXES), *NEIGHBOURS, *itertools.combinations(AXES, len(AXES) - 1), AXES]
"""Every axis by itself, beside another, and left out: as many choices as grow with the axes, not with their pairs."""
SHARED = {
    "check_params",
    "build_prompts",
    "build_instructions",
    "check_model",
    "preflight",
    "discretize",
    "build_tries",
    "train_soft",
    "train_hard",
    "generate_instructions",
    "train_mixed",
    "merge_adapters",
    "report",
}
ON_DEMAND = {"profile_construction"}
QUESTIONS = {"build_questions", "generate_questions", "partition_questions"}
OF_AXIS = {
    "structured": {
        "discretize_eval",
        "floor_structured",
        "generate_structured",
        "score_structured",
        "exact_structured",
        "eval_structured",
    },
    "open": {"generate_open", "score_open", "eval_open"},
    "mcq": {"generate_mcq", "eval_mcq"},
    "novelty": {"build_novelty_prompts", "generate_novelty", "partition_novelty", "reward_novelty", "eval_novelty"},
    "retention": {"import_irt", "score_retention", "eval_retention"},
    "paloma": {"score_paloma", "eval_paloma"},
    "anchors": {"generate_anchors", "score_anchors", "eval_anchors"},
    "laws": {"build_laws", "generate_laws", "exact_laws", "eval_laws"},
    # One sample of answers and its classes for all five.
    "human": {*QUESTIONS, "eval_human"},
    "semcal": {*QUESTIONS, "eval_semcal"},
    "credal": {*QUESTIONS, "eval_credal"},
    "uncertainty": {*QUESTIONS, "score_questions", "eval_uncertainty"},
    "inv_entropy": {*QUESTIONS, "build_perturbations", "generate_perturbations", "eval_inv_entropy"},
    "selfreflect": {*QUESTIONS, "request_summaries", "generate_selfreflect", "score_selfreflect", "eval_selfreflect"},
}
LAW = "+laws.destination=data/laws/destination.yaml"


def values_of(*overrides: str) -> dict:
    return composed_params("methods=paper", *overrides)


def tables_of(*overrides: str) -> dict:
    return dag_section(validate(values_of(*overrides)))


@pytest.fixture(scope="module", params=["demo", "paper"])
def choices(request) -> tuple[dict, dict[tuple[str, ...], StageGraph]]:
    """Values of an experiment, all baselines and methods switched on, and its DAG by axes: few for the paper."""
    names = ("ssot", "constrained", "batch", "verbalized")
    methods = (f"+method@methods.{name}={name}" for name in ("anchored", "merged"))
    values = values_of(
        f"experiment={request.param}", *(f"generate.{name}.enabled=true" for name in names), *methods, LAW
    )
    subsets = SUBSETS if request.param == "demo" else [("structured",), ("open", "mcq", "retention"), AXES]
    params = validate(values)
    return values, {axes: StageGraph(replace(params, axes=list(axes))) for axes in subsets}


def test_every_stage_belongs_to_one_axis_or_to_all():
    own = [stages - QUESTIONS for stages in OF_AXIS.values()]
    assert sorted([*SHARED, *itertools.chain(*own), *QUESTIONS, *ON_DEMAND]) == sorted(STAGES)
    assert list(OF_AXIS) == list(AXES)


def test_axes_decide_which_stages_exist_and_nothing_else(choices):
    experiment, graphs = choices
    for axes, graph in graphs.items():
        values = {**experiment, "axes": list(axes)}
        stages = {node.stage.name for node in graph.values()}
        assert stages == SHARED.union(*(OF_AXIS[axis] for axis in axes))
        # The same command, files and values: what is switched on again finds all that was made meanwhile.
        expected = {name: node for name, node in graphs[AXES].items() if node.stage.name in stages}
        if "structured" not in axes:
            expected = {name: node for name, node in expected.items() if not name.endswith("-eval")}
        assert dict(graph) == expected
        for node in graph.values():
            changed = {key for key in node.parameters if look_up(values, key) != look_up(experiment, key)}
            assert changed <= ({"axes"} if node.name == "report" else set())


def test_laws_have_stages_only_where_there_are_any():
    with pytest.raises(ConfigError, match="axes: laws needs a law"):
        values_of("axes=[laws]")
    own, others = tables_of(LAW, "axes=[mcq,laws]"), tables_of("axes=[mcq]")
    assert set(own["sampled"]["laws"]) == {"embedded-base", "embedded-soft", "embedded-hard"}
    assert own["sampled"]["laws"]["embedded-soft"]["sampling"] == "structured"
    assert others["sampled"]["laws"] == others["conditions"]["laws"] == others["axes"]["laws"] == {}
    assert own["laws_source"] == others["laws_source"] == "data/laws"
    # An axis that is on without laws has nothing to run.
    assert dag_section(replace(validate(values_of()), axes=["laws"]))["conditions"]["laws"] == {}


def test_measuring_construction_is_one_switch():
    off, on = (StageGraph(validate(values_of(f"profile_construction={value}"))) for value in ("false", "true"))
    profiled = {"profile_construction@embedded-soft", "profile_construction@embedded-eval"}
    assert set(on) - set(off) == profiled and {name: on[name] for name in off} == dict(off)
    # The report reads what sweeps have measured: nothing of the DAG itself waits for it.
    assert on.downstream(profiled) == profiled
    with pytest.raises(ConfigError, match="the stage 'profile_construction' is left out under these parameters"):
        off.select(["profile_construction"])


def test_every_input_is_made_or_in_the_repository_and_every_output_is_needed(choices):
    for axes, graph in choices[1].items():
        for name in graph:
            for source in graph.sources(name):
                assert (ROOT / source).exists(), f"{axes}: {name} needs {source}, which no stage makes"
        assert set(graph.closure(["report"])) == set(graph), axes


def test_the_composition_follows_the_axes_in_any_order():
    one, other = values_of("axes=[retention,mcq]"), values_of("axes=[mcq,retention]")
    assert one == other and one["axes"] == ["mcq", "retention"]
    tables = tables_of("axes=[retention,mcq]")
    assert tables["axes"] == {
        "structured": {},
        "open": {},
        "mcq": {"mcq": {"axis": "mcq"}},
        "novelty": {},
        "retention": {"retention": {"axis": "retention"}},
        "paloma": {},
        "anchors": {},
        "laws": {},
        "human": {},
        "semcal": {},
        "credal": {},
        "uncertainty": {},
        "inv_entropy": {},
        "selfreflect": {},
    }
    assert {axis for axis, table in tables["conditions"].items() if table} == {"mcq", "retention"}
    assert {axis for axis, table in tables["sampled"].items() if table} == {"mcq"}
    assert set(tables["conditions"]["mcq"]) == {"embedded-base", "embedded-soft", "embedded-hard"}
    # The soft method trains on tries of its own; those for evaluation are for structured sampling.
    assert set(tables["tries"]) == {"embedded-soft"}
    assert set(tables_of("axes=[structured]")["tries"]) == {"embedded-soft", "embedded-eval"}


def test_baselines_are_sampled_on_the_axes_that_have_them():
    conditions = {"embedded-base", "embedded-soft", "embedded-hard"}
    neither, opened = tables_of("axes=[retention,mcq]"), tables_of("axes=[open]")
    assert neither["sampled"]["structured"] == {} == neither["sampled"]["open"]
    # They are not scored: nothing but what they are asked differs from base.
    assert set(opened["conditions"]["open"]) == conditions
    assert set(opened["sampled"]["open"]) == {*conditions, "embedded-ssot"} and opened["sampled"]["structured"] == {}
    # Each is sampled under its own settings, the others under those of the axis.
    sampling = {name: row["sampling"] for name, row in opened["sampled"]["open"].items()}
    assert sampling == {**dict.fromkeys(conditions, "open"), "embedded-ssot": "ssot"}


def test_weights_are_what_a_condition_adds_to_the_checkpoint():
    rows = tables_of("generate.constrained.enabled=true")["sampled"]["structured"]
    assert {name.removeprefix("embedded-"): row["weights"] for name, row in rows.items()} == {
        "base": "artifacts/models/embedded.json",
        "soft": "artifacts/adapters/embedded/soft/adapter_model.safetensors",
        "hard": "artifacts/adapters/embedded/hard/adapter_model.safetensors",
        "ssot": "artifacts/models/embedded.json",
        "constrained": "artifacts/tries/embedded/eval",
    }


def test_a_stage_that_is_left_out_is_told_from_one_that_never_was():
    graph = StageGraph(validate(values_of("axes=[structured]")))
    for name in ("eval_novelty", "eval_novelty@embedded", "import_irt@retention", "generate_open@embedded-base"):
        with pytest.raises(ConfigError, match=f"the stage '{name}' is left out .*switched off \\(axes\\)"):
            graph.select([name])
    with pytest.raises(ConfigError, match="there is no stage 'eval_nov'; there are build_prompts, build_tries"):
        graph.select(["eval_nov"])
    with pytest.raises(
        ConfigError, match="there is no stage 'generate_structured@embedded-basic'; there are generate_s"
    ):
        graph.select(["generate_structured@embedded-basic"])


def test_an_evaluation_is_named_by_its_model():
    graph = StageGraph(validate(values_of("axes=[mcq,open]")))
    for old, new in (
        ("eval_mcq@embedded-soft", "eval_mcq@embedded"),
        ("eval_open_baseline@embedded-ssot", "eval_open@embedded"),
        ("eval_open_baseline", "eval_open"),
    ):
        message = f"'{old}': an evaluation is of all conditions of a model; its name is {new}$"
        with pytest.raises(ConfigError, match=message):
            graph.select([old])
        with pytest.raises(ConfigError, match=message):
            refuse_old_names(["repro", old], ROOT / "params.yaml")
    assert graph.select(["eval_mcq"]) == ["eval_mcq@embedded"]
    refuse_old_names(["repro", "--dry", "eval_mcq@embedded", "train_soft@embedded"], ROOT / "no_params.yaml")


def waits_for(graph: StageGraph, name: str) -> set[str]:
    """What models do that a run reads directly."""
    return {other for other in graph.upstream(name) if other.startswith(("generate_", "score_", "exact_", "reward_"))}


def test_an_evaluation_waits_for_all_conditions_of_its_model(choices):
    for graph in choices[1].values():
        evaluations = [node for node in graph.values() if node.stage.name.startswith("eval_")]
        for node in evaluations:
            models = {graph[name].model for name in waits_for(graph, node.name)}
            assert models == ({node.model} if models else set()), node.name
    graph, model = choices[1][AXES], evaluations[0].model
    methods = ("base", "soft", "hard", "anchored", "merged")
    baselines = {"structured": ("ssot", "constrained", "batch", "verbalized"), "open": ("ssot", "batch", "verbalized")}
    kinds = {
        "structured": ("generate_structured", "score_structured", "exact_structured"),
        "open": ("generate_open", "score_open"),
        "mcq": ("generate_mcq",),
        "novelty": ("reward_novelty",),
        "retention": ("score_retention",),
        "paloma": ("score_paloma",),
        "laws": ("generate_laws", "exact_laws"),
        "uncertainty": ("score_questions",),
        "selfreflect": ("score_selfreflect",),
    }
    for axis, stages in kinds.items():
        expected = {f"{stage}@{model}-{condition}" for stage in stages for condition in methods}
        expected |= {f"generate_{axis}@{model}-{baseline}" for baseline in baselines.get(axis, ())}
        assert waits_for(graph, f"eval_{axis}@{model}") == expected, axis


def test_one_condition_asks_for_nothing_of_the_others():
    own = ("methods=hard", "conditions=[hard]", "generate.ssot.enabled=false")
    graph = StageGraph(validate(composed_params(*own)))
    sampled = {name for name in graph if name.startswith(("train_", "generate_", "score_", "exact_", "reward_"))}
    # Divergences on other texts are from base, along base's replies.
    assert {name for name in sampled if not name.endswith("-hard")} == {
        "train_hard@embedded",
        "generate_anchors@embedded-base",
    }
    without = StageGraph(validate(composed_params(*own, "axes=[structured,open,mcq]")))
    assert {node.row["condition"] for node in without.values() if "condition" in node.row} == {"hard"}
    # A method that is trained and not evaluated, e.g. for another that is merged from it.
    merged = StageGraph(validate(composed_params("methods=paper", "conditions=[base,soft]", "axes=[mcq]")))
    assert "train_hard@embedded" in merged and "generate_mcq@embedded-hard" not in merged
    with pytest.raises(ConfigError, match="conditions: got 'soft'; give null for all, or a list of base, hard"):
        composed_params("methods=hard", "conditions=[soft]")


def test_dag_yaml_holds_the_table_of_conditions_once():
    text = (ROOT / "dag.yaml").read_text()
    table = text[text.index("  conditions:") : text.index("  evaluated:")]
    assert table.count("condition: hard") == 1 and table.count("\n    mcq: *id001\n") == 1
