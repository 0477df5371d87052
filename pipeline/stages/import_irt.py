"""Convert the TinyBenchmarks item parameters to plain arrays, checked against their known hash.

``retention.irt_artifact`` is the published pickle or an .npz file made from one; after this stage nothing is unpickled.
"""

from pathlib import Path

from pipeline.artifacts.irt_artifact import convert_published, read_irt, read_published, verify_sha256, write_irt
from pipeline.command import run_stage
from pipeline.config.params import load_params
from pipeline.core.retention.irt import SCENARIOS
from pipeline.errors import ArtifactError, ConfigError
from pipeline.record.provenance import StageRecord
from pipeline.stages.arguments import stage_parser


def main(params: Path, output: Path) -> None:
    """Write the five scenarios' item parameters to ``output`` (.npz), provenance beside it."""
    config = load_params(params)
    source, sha256 = Path(config.retention.irt_artifact), config.retention.irt_sha256
    if not source.exists():
        raise ArtifactError(
            f"{source} (retention.irt_artifact) does not exist; for the paper's setting put the tinyBenchmarks "
            "repository's tinyBenchmarks.pkl there and its SHA-256 in retention.irt_sha256"
        )
    record = StageRecord("import_irt", {"irt_sha256": sha256, "scenarios": list(SCENARIOS.values())}, [source])
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
    record.write(
        output.with_suffix(".provenance.json"),
        num_items={name: len(scenario.offsets) for name, scenario in scenarios.items()},
        num_seen={name: len(scenario.seen) for name, scenario in scenarios.items()},
    )


if __name__ == "__main__":
    parser = stage_parser(__doc__)
    parser.add_argument("--output", type=Path, required=True, help=".npz file to write")
    run_stage(main, parser.parse_args())
