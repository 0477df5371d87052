"""The view of the parameters that a stage has: what it declares, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import pytest

from pipeline.config.conditions import answer_protocol, generation_settings
from pipeline.config.engine import samples_per_request
from pipeline.config.evaluation import enabled_baselines
from pipeline.config.params import load_params
from pipeline.config.view import ParamsView, UndeclaredParameterError, look_up
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def params():
    return load_params(ROOT / "params.yaml")


def view_of(params, *keys: str) -> ParamsView:
    return ParamsView(params, keys, "the stage eval_open embedded soft")


def assert_refused(read: Callable[[], object], key: str, reader: str = "the stage eval_open embedded soft") -> None:
    with pytest.raises(UndeclaredParameterError) as refused:
        read()
    assert str(refused.value) == (
        f"{reader} reads the parameter {key}, which its declaration does not name (pipeline/dag/stages.py, or "
        "stages.py of the axis)"
    )


def test_a_declared_leaf_has_its_value_and_its_neighbours_are_refused(params):
    view = view_of(params, "seed", "train.soft.epochs")
    assert view.seed == params.seed and view.train.soft.epochs == params.train.soft.epochs
    assert_refused(lambda: view.experiment, "experiment")
    assert_refused(lambda: view.train.lora_rank, "train.lora_rank")
    assert_refused(lambda: view.train.soft.estimator, "train.soft.estimator")
    assert_refused(lambda: view.train.hard, "train.hard")


def test_a_declared_section_is_given_whole(params):
    view = view_of(params, "generate.open", "evaluate")
    assert view.generate.open is params.generate.open
    assert view.evaluate is params.evaluate
    assert view.evaluate.novelty.classifier.kind == params.evaluate.novelty.classifier.kind


def test_a_partly_declared_section_is_another_view(params):
    section = view_of(params, "evaluate.novelty.reward", "evaluate.novelty.patience").evaluate.novelty
    assert isinstance(section, ParamsView)
    assert section.reward is params.evaluate.novelty.reward and section.patience == params.evaluate.novelty.patience
    assert_refused(lambda: section.classifier, "evaluate.novelty.classifier")


def test_a_key_that_only_starts_alike_is_not_declared(params):
    view = view_of(params, "train.lora_rank", "generate.open")
    assert_refused(lambda: view.train.lora_alpha, "train.lora_alpha")
    # Not "seed" of a section, nor a section whose name is the beginning of another's.
    assert_refused(lambda: view_of(params, "see", "seeds.of", "models.embedded.seed").seed, "seed")


def test_tables_of_sections(params):
    view = view_of(params, "models.embedded.checkpoint", "retention.revisions")
    assert view.models["embedded"].checkpoint == params.models["embedded"].checkpoint
    # Which entries there are is no parameter of theirs.
    assert "embedded" in view.models and "other" not in view.models and list(view.models) == ["embedded"]
    assert_refused(lambda: view.models["embedded"].dtype, "models.embedded.dtype")
    # A declared table is the table itself.
    assert view.retention.revisions is params.retention.revisions
    whole = view_of(params, "models").models
    assert whole is params.models


def test_an_undeclared_entry_of_a_table(params):
    view = view_of(params, "models.other.checkpoint")
    assert_refused(lambda: view.models["embedded"], "models.embedded")
    with pytest.raises(KeyError, match="other"):
        view.models["other"]


def test_a_leaf_that_is_declared_deeper_than_it_is_stays_refused(params):
    # There is nothing below a number that could be seen apart from it.
    assert_refused(lambda: view_of(params, "seed.of.training").seed, "seed")


def test_a_misspelt_name_is_an_attribute_error(params):
    view = view_of(params, "train.lora_rank")
    with pytest.raises(AttributeError, match="lora_rnak"):
        attrgetter("lora_rnak")(view.train)
    # What Python itself asks of an object is no parameter.
    assert not hasattr(view, "__fspath__")


@dataclass(frozen=True)
class Rectangle:
    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height

    def scaled(self, factor: int) -> int:
        return factor * self.width


def test_methods_and_properties_see_the_same_restriction():
    both = ParamsView(Rectangle(2, 3), ["width", "height"], "a test")
    assert both.area == 6 and both.scaled(5) == 10
    one = ParamsView({"shape": Rectangle(2, 3)}, ["shape.width"], "a test")["shape"]
    assert one.scaled(5) == 10
    assert_refused(lambda: one.area, "shape.height", "a test")


def test_functions_of_the_parameters_see_the_same_restriction(params):
    view = view_of(params, "generate.open.num_samples", "models.embedded.chat", "engine.kind")
    assert generation_settings(view, "open", "soft").num_samples == params.generate.open.num_samples
    assert_refused(lambda: generation_settings(view, "open", "soft").temperature, "generate.open.temperature")
    assert_refused(lambda: generation_settings(view, "open", "ssot"), "generate.ssot")
    assert answer_protocol(view, "embedded", "soft").answers_per_request == 1
    assert_refused(lambda: enabled_baselines(view.generate), "generate.ssot")
    assert params.engine.kind == "transformers" and samples_per_request(view.engine) == samples_per_request(
        params.engine
    )


def test_looking_up_dotted_keys():
    values = {"a": {"b": {"c": 1}}, "d": [2]}
    assert look_up(values, "a.b.c") == 1 and look_up(values, "a.b") == {"c": 1} and look_up(values, "d") == [2]
    for key in ("a.x", "a.b.c.d", "x", "d.0"):
        with pytest.raises(KeyError, match=key):
            look_up(values, key)
