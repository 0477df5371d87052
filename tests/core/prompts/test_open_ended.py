"""The open-ended prompts: the paper's examples to the letter, and 102 different ones."""

import re

from pipeline.core.prompts.open_ended import OPEN_CATEGORIES, open_prompts
from pipeline.demo.embedded.knowledge import CATEGORIES


def test_categories():
    assert len(OPEN_CATEGORIES) == len({category.casefold() for category in OPEN_CATEGORIES}) == 102
    assert set(OPEN_CATEGORIES) >= set(CATEGORIES)
    assert all(re.fullmatch(r"[A-Za-z]+( [A-Za-z]+){0,2}", category) for category in OPEN_CATEGORIES)


def test_the_papers_examples():
    texts = {prompt.text for prompt in open_prompts()}
    assert texts >= {
        "Choose a random first name. Output ONLY the answer.",
        "Name a random city. Output ONLY the answer.",
        "Think of a random animal. Output ONLY the answer.",
        "Pick a random musical instrument. Output ONLY the answer.",
    }


def test_ids():
    prompts = open_prompts()
    assert len({prompt.prompt_id for prompt in prompts}) == 102
    assert all(re.fullmatch(r"open-[a-z-]+-[0-9a-f]{10}", prompt.prompt_id) for prompt in prompts)
    assert {prompt.split for prompt in prompts} == {"open"}
    assert [prompt.category for prompt in prompts] == list(OPEN_CATEGORIES)
    # Ids name random streams and files: a change would silently draw other samples.
    assert prompts[1].prompt_id == "open-first-name-b44276ae08"
