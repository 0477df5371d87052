"""The content of code.yaml: a digest of the code of every stage."""

from collections.abc import Sequence
from typing import Any

from pipeline.artifacts.storage import sha256_json
from pipeline.dag.code_digest import ALTERNATIVES, DIGITS, engines_besides, project_code
from pipeline.dag.declaration import Stage
from pipeline.dag.stages import STAGES

CHECK = "check-params"
"""The stage that checks all others' code; its own needs no digest, because it depends on every file."""


def stage_digest(stage: Stage, leave_out: Sequence[str] = ()) -> str:
    """Digest of the code of a stage and of its parts; ``leave_out`` are modules that do not count."""
    entries = [stage.entry, *dict.fromkeys(part.entry for part in stage.parts)]
    digests = [project_code().digest(entry, leave_out) for entry in entries]
    return digests[0] if len(digests) == 1 else sha256_json(digests)[:DIGITS]


def code_digests() -> dict[str, Any]:
    """The content of code.yaml: a digest by stage; by engine, too, for a stage that samples with one."""
    return {
        stage.name: {kind: stage_digest(stage, engines_besides(kind)) for kind in ALTERNATIVES}
        if stage.runs_engine
        else stage_digest(stage)
        for stage in STAGES.values()
        if stage.name != CHECK
    }
