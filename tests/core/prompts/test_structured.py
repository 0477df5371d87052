"""From the text of a structured request back to its law."""

import pytest

from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.structured import build_split, make_prompt, parse_prompt
from pipeline.errors import DomainError

PROMPTS = [
    *build_split("train", prompts_per_family=3),
    *build_split("unseen"),
    *build_split("unseen", selection="interpolated"),
    *build_split("ood"),
]


def test_every_request_gives_its_own_prompt_back():
    assert {prompt.family for prompt in PROMPTS} == set(FAMILIES)
    for prompt in PROMPTS:
        found = parse_prompt(prompt.text)
        assert found is not None and found.split == ""
        assert (found.prompt_id, found.text, found.parameters, found.law) == (
            prompt.prompt_id,
            prompt.text,
            prompt.parameters,
            prompt.law,
        )


def test_numbers_may_be_written_otherwise():
    prompt = make_prompt("gaussian", {"mu": 0.0, "sigma": 0.5}, "train")
    written = f"  {prompt.text.replace('mu=0.0, sigma=0.5', 'mu=0, sigma=5e-1')}\n"
    assert written.strip() != prompt.text and parse_prompt(written).prompt_id == prompt.prompt_id


@pytest.mark.parametrize(
    "change",
    [("Gaussian", "Normal"), ("mu=", "mu "), ("mu=0.0", "mu=zero"), ("ONE", "one"), ("number.", "number. Hurry!")],
)
def test_other_texts_are_no_structured_requests(change):
    text = make_prompt("gaussian", {"mu": 0.0, "sigma": 0.5}, "train").text
    assert change[0] in text and parse_prompt(text.replace(*change)) is None


@pytest.mark.parametrize("change", [("sigma=0.5", "sigma=-0.5"), ("sigma=0.5", "sigma=nan"), ("sigma=", "scale=")])
def test_a_law_that_does_not_exist_is_refused(change):
    text = make_prompt("gaussian", {"mu": 0.0, "sigma": 0.5}, "train").text
    with pytest.raises(DomainError, match="gaussian"):
        parse_prompt(text.replace(*change))
