"""Download all that params.yaml takes from the hub: ``python -m pipeline.sources.fetch``, on a machine with network.

Of each checkpoint, data set and evaluator the files that stages read go into the hub's cache (below HF_HOME), where
stages find them without network (HF_HUB_OFFLINE=1). What cannot be fetched is reported at the end.
"""

from pathlib import Path

from pipeline.command import run_command
from pipeline.commands import parse_arguments
from pipeline.config.params import load_params
from pipeline.errors import ConfigError, PipelineError
from pipeline.sources.pin import CHECKPOINT_FILES, HubSource, downloads, unpinned
from pipeline.sources.repository import PUBLISHED_RESULTS, fetched

# Copies of the weights in other formats, some of them as large as the checkpoint.
OTHER_FORMATS = ("*/*.json", "*/*.model", "*/*.txt", "*/*.safetensors", "*/*.bin")


def download(source: HubSource) -> Path:
    """Fetch the files of a repository; the directory that has them. Raises PipelineError."""
    repository = (source.repository, source.revision, source.kind)
    without = OTHER_FORMATS if source.kind == "model" else PUBLISHED_RESULTS
    directory = fetched(*repository, files=source.files, without=without)
    if source.files == CHECKPOINT_FILES and not any(directory.glob("*.safetensors")):
        # An evaluator may have PyTorch weights only.
        fetched(*repository, files=("*.bin",), without=without)
    return directory


def main(params: Path) -> None:
    """Fetch everything. Raises ConfigError where something has no commit, or could not be fetched."""
    config = load_params(params)
    if missing := unpinned(config):
        raise ConfigError(
            f"{params}: {', '.join(missing)}: no commit; `make pin` writes the commits into conf/, then `make params`"
        )
    failures = []
    for source in downloads(config):
        try:
            directory = download(source)
        except PipelineError as error:
            failures.append(str(error))
        else:
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
            print(f"{source.repository}: {size / 1e9:.2f} GB in {directory}", flush=True)
    if failures:
        raise ConfigError("\n  ".join([f"{len(failures)} source(s) not fetched; run it again for them:", *failures]))
    print("all that params.yaml takes from the hub is in the cache; HF_HUB_OFFLINE=1 keeps stages off the network")


if __name__ == "__main__":
    run_command(main, parse_arguments("pipeline.sources.fetch"))
