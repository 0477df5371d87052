"""The modules whose functions a stage was seen to call are those that the digest of its code covers."""

import cProfile
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.dag.code_digest import EXEMPT, project_code
from pipeline.dag.stages import DECLARED
from tests.conftest import ROOT

NEW_LOCALS = 2
"""Flag of the code of functions; what runs when a module or a class is made has it not."""
FOLDERS = ("pipeline.axes", "pipeline.config.")
"""Which parts a stage has follows from what all axes declare, and from which of them are on; DVC tracks both."""


SHOWN_IN_TRAINING = ("axes.structured.pit", "axes.structured.wasserstein", "engines.sampling.transformers_engine")
"""What ``pipeline.stages.training_distance``, which is exempt, measures a training with."""


@functools.cache
def module_of(file: str) -> str:
    """Dotted name of the project's module in a file, if it is one of those that count; empty for any other file."""
    inside = Path(file).is_relative_to(ROOT / "pipeline")
    module = ".".join(Path(file).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") if inside else ""
    return "" if f"{module}.".startswith(tuple(f"{name}." for name in EXEMPT)) else module


def called(profile: cProfile.Profile) -> set[str]:
    """Modules of functions that modules which count have called; what C calls counts as its callers' calls."""
    return {
        module_of(callee.code.co_filename)
        for caller in profile.getstats()
        for callee in caller.calls or ()
        if callee.code.co_flags & NEW_LOCALS and module_of(caller.code.co_filename)
    } - {""}


def uncovered(profiles: Mapping[str, cProfile.Profile]) -> dict[str, set[str]]:
    """Modules that stages called and their digests do not cover, by the stage's name in DVC."""
    found = {}
    for name, profile in profiles.items():
        stage = DECLARED[name.partition("@")[0]]
        reached = set()
        for piece in stage.parts or (stage,):
            reached |= project_code().reach(piece.module_name)
        for module in SHOWN_IN_TRAINING if name.startswith("train-") else ():
            reached |= project_code().reach(f"pipeline.{module}")
        assert called(profile), name
        found[name] = {m for m in called(profile) - reached if not (stage.parts and m.startswith(FOLDERS))}
    return {name: modules for name, modules in found.items() if modules}


@pytest.mark.slow
def test_no_stage_calls_what_its_digest_does_not_cover(dag, profiles):
    assert len(profiles) > 30 and uncovered(profiles) == {}
