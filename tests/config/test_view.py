"""The view of the parameters that a stage has: what it declares, and nothing else."""

from dataclasses import dataclass
from operator import attrgetter

import pytest

from pipeline.config.conditions import answer_protocol, baselines_on, generation_settings
from pipeline.config.params import load_params
from pipeline.config.view import ParamsView, UndeclaredParameterError
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def params():
    return load_params(ROOT / "params.yaml")


def view_of(params, *keys: str) -> ParamsView:
    return ParamsView(params, keys, "the stage eval_open embedded soft")


@pytest.mark.parametrize(
    ("keys", "read", "refused"),
    [
        (["seed", "train.soft.epochs"], "experiment", "experiment"),
        (["seed", "train.soft.epochs"], "train.soft.samples_per_prompt", "train.soft.samples_per_prompt"),
        (["evaluate.novelty.patience"], "evaluate.novelty.classifier", "evaluate.novelty.classifier"),
        # Keys that only start alike, and a leaf that is declared deeper than it is.
        (["train.lora_rank"], "train.lora_alpha", "train.lora_alpha"),
        (["see", "seeds.of", "models.embedded.seed"], "seed", "seed"),
        (["seed.of.training"], "seed", "seed"),
    ],
)
def test_what_is_not_declared_is_refused(params, keys, read, refused):
    with pytest.raises(UndeclaredParameterError, match=f"^the stage eval_open embedded soft reads .* {refused}, which"):
        attrgetter(read)(view_of(params, *keys))


def test_declared_leaves_sections_and_tables_are_given(params):
    view = view_of(params, "seed", "train.soft.epochs", "evaluate", "evaluate.novelty.patience", "retention.revisions")
    assert view.seed == params.seed and view.train.soft.epochs == params.train.soft.epochs
    assert view.evaluate is params.evaluate and view.retention.revisions is params.retention.revisions
    models = view_of(params, "models.embedded.checkpoint").models
    assert models["embedded"].checkpoint == params.models["embedded"].checkpoint
    # Which entries there are is no parameter of theirs.
    assert "embedded" in models and "other" not in models and list(models) == ["embedded"]
    with pytest.raises(UndeclaredParameterError, match=r"models\.embedded\.dtype"):
        attrgetter("dtype")(models["embedded"])
    with pytest.raises(KeyError, match="other"):
        models["other"]
    with pytest.raises(AttributeError, match="lora_rnak"):
        attrgetter("train.lora_rnak")(view_of(params, "train.lora_rank"))


@dataclass(frozen=True)
class Rectangle:
    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height

    def scaled(self, factor: int) -> int:
        return factor * self.width


def test_methods_properties_and_functions_see_the_same_restriction(params):
    one = ParamsView({"shape": Rectangle(2, 3)}, ["shape.width"], "a test")["shape"]
    assert one.scaled(5) == 10
    view = view_of(params, "generate.open.num_samples", "models.embedded.chat")
    assert generation_settings(view, "open", "soft").num_samples == params.generate.open.num_samples
    assert answer_protocol(view, "embedded", "soft").answer("1") == "1"
    with pytest.raises(UndeclaredParameterError, match=r"shape\.height"):
        one.area  # noqa: B018
    with pytest.raises(UndeclaredParameterError, match=r"generate\.ssot"):
        baselines_on(view, "open")
