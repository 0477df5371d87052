"""Convert the TinyBenchmarks item parameters (the published pickle, or an .npz file) to plain arrays, by their hash."""

from pathlib import Path

from pipeline.artifacts.irt_artifact import convert_published, read_irt, read_published, verify_sha256, write_irt
from pipeline.core.retention.irt import SCENARIOS
from pipeline.dag.execution import StageRun, command_line
from pipeline.errors import ArtifactError, ConfigError


def main(run: StageRun, output: Path) -> None:
    """Write the five scenarios' item parameters to ``output`` (.npz)."""
    source, sha256 = Path(run.params.retention.irt_artifact), run.params.retention.irt_sha256
    if not source.exists():
        raise ArtifactError(
            f"{source} (retention.irt_artifact) does not exist; for the paper's setting put the tinyBenchmarks "
            "repository's tinyBenchmarks.pkl there and its SHA-256 in retention.irt_sha256"
        )
    if source.suffix == ".npz":
        if sha256 is not None:
            verify_sha256(source, sha256)
        scenarios = read_irt(source)
    elif sha256 is None:
        raise ConfigError(f"retention.irt_sha256 is null; {source} is a pickle and is opened only if its hash is known")
    else:
        scenarios = convert_published(read_published(source, sha256), str(source))
    missing = [name for name in SCENARIOS.values() if name not in scenarios]
    if missing:
        raise ArtifactError(f"{source} has no scenario {missing[0]!r}; it has {list(scenarios)}")
    write_irt(output, scenarios)
    run.write_record(
        num_items={name: len(scenario.offsets) for name, scenario in scenarios.items()},
        num_seen={name: len(scenario.seen) for name, scenario in scenarios.items()},
    )


if __name__ == "__main__":
    command_line()
