"""Add up what trained adapters have learned, by weight; nothing is trained."""

from pathlib import Path

from pipeline.artifacts.atomic import atomic_directory
from pipeline.dag.execution import StageRun, command_line


def main(run: StageRun, model: str, method: str, adapters: list[Path], output: Path) -> None:
    """Write the adapter directory ``output``: the sum of the updates of ``adapters``, each times its weight."""
    from pipeline.artifacts.adapters import merge_adapters

    # One method alone is named twice, because a row of the DAG has two places.
    sources = {path.name: path for path in adapters}
    weights = run.params.methods[method].merge
    with atomic_directory(output) as directory:
        merge_adapters([(sources[name], weight) for name, weight in weights.items()], directory)
        run.write_record(directory)


if __name__ == "__main__":
    command_line()
