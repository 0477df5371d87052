"""Running the parts of a stage one after the other, with one load of a model."""

import sys

from pipeline.artifacts.unavailable import write_unavailable
from pipeline.dag.execution import StageRun, execute
from pipeline.engines.loading.conditioned_model import keep_last_model
from pipeline.errors import ModelError, UnavailableError

OFF = "no axis asks for it (axes in params.yaml)"
"""Why there is no artifact where an axis is off."""


def run_parts(run: StageRun) -> None:
    """Do the parts of a stage that are not done.

    What a part wrote in an earlier run is kept where it is of the same identity: requests, settings, weights and code.
    A part that the model cannot do, for want of memory or of a template, leaves artifacts that say so; the others run.
    An axis that is off keeps what it has, or gets an artifact that says so.
    """
    with keep_last_model():
        for part in run.parts():
            if part.is_done():
                print(f"{part.title}: unchanged, kept", file=sys.stderr)
                continue
            try:
                execute(part)
            except (ModelError, UnavailableError) as error:
                if run.stage.device == "none":
                    raise
                for path in (*part.outputs, part.record_path):
                    write_unavailable(path, f"{part.title}: {error}")
                print(
                    f"FAILED: {part.title}: {error}. Tables show its cells as failed. To try again: "
                    f"dvc repro --force --single-item {run.address}",
                    file=sys.stderr,
                )
    for name, path in run.outputs_of_parts_that_are_off():
        if not path.exists():
            write_unavailable(path, f"{name}: {OFF}")
