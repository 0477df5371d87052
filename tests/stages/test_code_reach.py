"""What a stage's code was seen to call is what the digest of its code covers."""

import cProfile
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.dag.code_digest import EXEMPT, engines_besides, project_code
from pipeline.dag.stages import STAGES
from tests.conftest import ROOT

NEW_LOCALS = 2
"""Flag of the code of functions; what runs when a module or a class is made has it not."""
NAMES = [
    "build_prompts",
    "build_novelty_prompts@novelty",
    "build_instructions@instructions",
    "build_questions@questions",
    "discretize@soft",
    "discretize_eval@structured",
    "check_model@embedded",
    "build_tries@embedded-soft",
    "floor_structured@structured",
    "import_irt@retention",
    "train_soft@embedded",
    "train_hard@embedded",
    *(
        f"{stage}@embedded-soft"
        for stage in STAGES
        if STAGES[stage].over.startswith(("conditions.", "sampled."))
        and stage != "generate_instructions"
        and not STAGES[stage].over.endswith((".laws", ".selfreflect"))
    ),
    *(f"{stage}@embedded-ssot" for stage in STAGES if STAGES[stage].over in ("sampled.structured", "sampled.open")),
    *(
        f"{stage}@embedded"
        for stage in STAGES
        if STAGES[stage].over.startswith("evaluated.") and not STAGES[stage].over.endswith((".laws", ".selfreflect"))
    ),
]


@functools.cache
def module_of(file: str) -> str:
    """Dotted name of the project's module in a file; empty for any other file."""
    inside = Path(file).is_relative_to(ROOT / "pipeline")
    return ".".join(Path(file).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") if inside else ""


@functools.cache
def is_exempt(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in EXEMPT)


def called(profile: cProfile.Profile) -> set[tuple[str, str]]:
    """What of the project was called, by module and name; what functions of C call counts as their callers' calls."""
    return {
        (module, callee.code.co_qualname.partition(".")[0])
        for caller in profile.getstats()
        for callee in caller.calls or ()
        if callee.code.co_flags & NEW_LOCALS
        # What the stage's frame calls for its own ends, e.g. to hash an input, is not the stage's work.
        and (module := module_of(callee.code.co_filename))
        and not is_exempt(module)
        and not is_exempt(module_of(caller.code.co_filename))
    }


def uncovered(profiles: Mapping[str, cProfile.Profile]) -> dict[tuple[str, str], list[str]]:
    """What of the project stages called and their digests do not cover, by module and name; the stages with each."""
    anonymous = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")
    missing: dict[tuple[str, str], list[str]] = {}
    for name, profile in profiles.items():
        reached = project_code().reach(STAGES[name.partition("@")[0]].entry, engines_besides("transformers"))
        found = called(profile)
        assert len(found) > 2, name
        for key in found - set(reached):
            if key[1] not in anonymous:
                missing.setdefault(key, []).append(name)
    return missing


@pytest.mark.slow
def test_no_stage_calls_what_its_digest_does_not_cover(dag, profiles):
    assert set(NAMES) <= set(profiles)
    assert uncovered(profiles) == {}
