"""What a stage's code was seen to call is what the digest of its code covers."""

import cProfile
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.dag.code_digest import EXEMPT, engines_besides, project_code
from pipeline.dag.stages import DECLARED, PARTS, STAGES
from tests.conftest import ROOT

NEW_LOCALS = 2
"""Flag of the code of functions; what runs when a module or a class is made has it not."""
NAMES = [
    "build-prompts",
    "discretize@soft",
    "discretize-eval",
    "check-model@embedded",
    "build-tries@embedded-soft",
    "floor-structured",
    "import-irt",
    "train-soft@embedded",
    "train-hard@embedded",
    *(
        f"{name}@embedded-{'ssot' if 'baselines' in name else 'soft'}"
        for name, part in PARTS.items()
        if part.chosen_by == ("model", "condition") and not part.over.endswith((".laws", ".selfreflect"))
    ),
    *(
        f"{name}@embedded"
        for name, stage in STAGES.items()
        if name.startswith("eval-") and not name.endswith(("-laws", "-selfreflect"))
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
        stage = DECLARED[name.partition("@")[0]]
        # Which parts there are follows from what all axes declare and from which of them are on; DVC tracks both.
        found_by = {("pipeline.axes", "axis_modules"), ("pipeline.config.conditions", "baselines_on")}
        reached = set(found_by) if stage.parts else set()
        for piece in stage.parts or (stage,):
            reached |= project_code().reach(piece.entry, engines_besides("transformers")).keys()
        found = called(profile)
        assert len(found) > 2, name
        for key in found - reached:
            if key[1] not in anonymous:
                missing.setdefault(key, []).append(name)
    return missing


@pytest.mark.slow
def test_no_stage_calls_what_its_digest_does_not_cover(dag, profiles):
    assert set(NAMES) <= set(profiles)
    assert uncovered(profiles) == {}
