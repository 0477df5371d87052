"""What a stage's code was seen to call is what the digest of its code covers."""

import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import pytest

from pipeline.config.params import load_params
from pipeline.dag.code_digest import EXEMPT, engines_besides, project_code
from pipeline.dag.execution import execute, named_run
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
    *(f"{stage}@embedded-ssot" for stage in STAGES if STAGES[stage].over.startswith(("baselines.", "sampled.st"))),
]


@functools.cache
def module_of(file: str) -> str:
    """Dotted name of the project's module in a file; empty for any other file."""
    inside = Path(file).is_relative_to(ROOT / "pipeline")
    return ".".join(Path(file).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") if inside else ""


def file_of(frame: FrameType | None) -> str:
    return "" if frame is None else frame.f_code.co_filename


@functools.cache
def is_exempt(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in EXEMPT)


def uncovered(names: Iterable[str], params: Path) -> dict[tuple[str, str], list[str]]:
    """Run stages; what of the project they call and their digests do not cover, by module and name."""
    missing: dict[tuple[str, str], list[str]] = {}
    for name in names:
        called: set[tuple[str, str]] = set()
        run = named_run(name, load_params(params))

        def look(frame: FrameType, event: str, argument: object, called=called) -> None:
            # As it returns None, it is asked about calls alone.
            if not frame.f_code.co_flags & NEW_LOCALS or not (module := module_of(frame.f_code.co_filename)):
                return
            # What the stage's frame calls for its own ends, e.g. to hash an input, is not the stage's work.
            if not is_exempt(module) and not is_exempt(module_of(file_of(frame.f_back))):
                called.add((module, frame.f_code.co_qualname.partition(".")[0]))

        before = sys.gettrace()
        sys.settrace(look)
        try:
            execute(run)
        finally:
            sys.settrace(before)
        reached = project_code().reach(STAGES[name.partition("@")[0]].entry, engines_besides("transformers"))
        anonymous = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")
        for key in called - set(reached):
            if key[1] not in anonymous:
                missing.setdefault(key, []).append(name)
    return missing


@pytest.mark.slow
def test_no_stage_calls_what_its_digest_does_not_cover(dag):
    assert uncovered(NAMES, dag.params) == {}
