"""The section ``laws``: absent in what was recorded before it, and what names and places it takes."""

import pytest

from pipeline.config.params import load_params, read_yaml, validate
from pipeline.dag.tables import dag_section
from pipeline.errors import ConfigError
from pipeline.sources.fetch import downloads
from tests.composition import composed_params
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def composed(*overrides: str) -> dict:
    return composed_params("methods=paper", *overrides)


def test_parameters_recorded_without_the_key_have_no_laws():
    values = composed()
    assert values.pop("laws") == {}
    assert validate(values).laws == {} and "laws" not in validate(values).possible_axes
    assert load_params(ROOT / "results" / "laptop" / "params.yaml").laws == {}


def test_parameters_recorded_before_there_were_questions_have_none():
    recorded = load_params(ROOT / "results" / "laptop" / "params.yaml")
    assert recorded.prompts.questions is recorded.generate.questions is recorded.evaluate.partition is None
    assert dag_section(recorded)["parts"]["asked"]["questions"] == {}
    assert not any("questions" in download.key for download in downloads(recorded))
    values = composed("axes=[mcq,semcal]")
    del values["evaluate"]["partition"]
    with pytest.raises(ConfigError, match="evaluate.partition: a value is missing, which human, semcal"):
        validate(values)


def test_records_made_with_settings_that_are_gone_are_read():
    path = ROOT / "results" / "laptop_longer" / "seed_0" / "params.yaml"
    values = read_yaml(path)
    assert "variants" in values["generate"]["questions"] and "genetic" in values["prompts"]["perturbations"]
    assert load_params(path).generate.questions.styles == {}


def test_inverse_entropy_needs_its_sections_and_perturbations_that_differ():
    values = composed("axes=[inv_entropy]")
    del values["generate"]["perturbations"]
    with pytest.raises(ConfigError, match="generate.perturbations: a value is missing, which inv_entropy need"):
        validate(values)
    assert validate({**values, "axes": ["semcal"]}).generate.perturbations is None
    for override, message in (
        ("prompts.perturbations.number=10", "10 perturbations need as many templates"),
        ("evaluate.inverse_entropy.similarity.kind=embedding", "the similarity embedding needs a checkpoint, got null"),
    ):
        with pytest.raises(ConfigError, match=message):
            composed("axes=[inv_entropy]", "experiment=paper", override)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["selfreflect.test_answers=50"], "test_answers: got 50; must be less than generate.questions.num_samples"),
        (["selfreflect.temperature=0"], "selfreflect.temperature: input should be greater than 0, got 0"),
        (["selfreflect=null"], "selfreflect: a value is missing, which the axis selfreflect needs"),
        (["generate.selfreflect=null"], "generate.selfreflect: a value is missing"),
    ],
)
def test_summaries_need_their_settings_where_they_are_asked_for(overrides, message):
    assert "selfreflect" not in validate(composed()).possible_axes
    with pytest.raises(ConfigError, match=message):
        composed("axes=[human,selfreflect]", *overrides)


def test_laws_are_named_on_the_command_line():
    assert composed("experiment=own_law")["laws"].keys() == {"destination", "delivery_hours", "drinks"}
    alone = composed("experiment=own_law", "laws=none", "+laws.lunch=data/mine/lunch.yaml")
    assert alone["laws"] == {"lunch": "data/mine/lunch.yaml"} and alone["axes"] == ["laws"]
    assert validate(composed("+laws.lunch=data/mine/lunch.yaml")).possible_axes[7] == "laws"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+laws.gaussian=data/laws/drinks.yaml"], "laws.gaussian: a law's name"),
        (["+laws.Lunch=data/laws/drinks.yaml"], "lower-case letters"),
        (["+laws.a=data/laws/a.yaml", "+laws.b=data/mine/b.yaml"], "one directory"),
        (["+laws.a=a.yaml"], "not the project's own"),
        (["axes=[laws]"], "axes: laws needs a law"),
    ],
)
def test_what_is_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        composed(*overrides)
