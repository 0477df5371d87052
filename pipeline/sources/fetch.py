"""Download all that params.yaml takes from the hub: ``python -m pipeline.sources.fetch``, on a machine with network.

Checkpoints, data sets and evaluators go into the hub's cache (below HF_HOME), of each only the files that the stages
read. Stages find them there, so that they run where there is no network (with HF_HUB_OFFLINE=1), and jobs that start
together do not download together. What cannot be fetched is reported at the end; what is there already is kept.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.command import run_command
from pipeline.config.params import Params, load_params
from pipeline.config.retention import task_data_set
from pipeline.errors import ConfigError, PipelineError
from pipeline.sources.paloma_documents import slice_patterns
from pipeline.sources.pin import hub_revisions, unpinned
from pipeline.sources.repository import PUBLISHED_RESULTS, fetched

TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
CHECKPOINT_FILES = (*TOKENIZER_FILES, "*.safetensors")
# Copies of the weights in other formats, some of them as large as the checkpoint.
OTHER_FORMATS = ("*/*.json", "*/*.model", "*/*.txt", "*/*.safetensors", "*/*.bin")


@dataclass(frozen=True)
class Download:
    """Files of one repository.

    Attributes:
        key: Dotted key of the revision in params.yaml.
        repository: OWNER/NAME.
        revision: Commit.
        kind: What the repository holds.
        files: Patterns of the wanted files; None for all.
    """

    key: str
    repository: str
    revision: str | None
    kind: Literal["model", "dataset"]
    files: tuple[str, ...] | None = None

    def run(self) -> Path:
        """Fetch the files; the directory that has them. Raises PipelineError."""
        without = OTHER_FORMATS if self.kind == "model" else PUBLISHED_RESULTS
        directory = fetched(self.repository, self.revision, self.kind, files=self.files, without=without)
        if self.files == CHECKPOINT_FILES and not any(directory.glob("*.safetensors")):
            # An evaluator may have PyTorch weights only.
            fetched(self.repository, self.revision, self.kind, files=("*.bin",), without=without)
        return directory


def _possible(params: Params) -> Iterator[tuple[str, str | None, Literal["model", "dataset"], tuple[str, ...] | None]]:
    """Key, repository, kind and files of everything that may come from the hub."""
    for name, model in params.models.items():
        yield f"models.{name}.revision", model.checkpoint, "model", CHECKPOINT_FILES
    for name in ("novelty", "instructions", "questions"):
        if prompts := getattr(params.prompts, name):
            yield f"prompts.{name}.revision", prompts.source, "dataset", None
    if (partition := params.evaluate.partition) and partition.judge:
        yield "evaluate.partition.judge.revision", partition.judge.checkpoint, "model", CHECKPOINT_FILES
    if perturbed := params.evaluate.inverse_entropy:
        key = "evaluate.inverse_entropy.similarity.revision"
        yield key, perturbed.similarity.checkpoint, "model", CHECKPOINT_FILES
    if params.selfreflect and (judge := params.selfreflect.judge):
        yield "selfreflect.judge.revision", judge.checkpoint, "model", CHECKPOINT_FILES
    classifier, reward = params.evaluate.novelty.classifier, params.evaluate.novelty.reward
    prefix = "evaluate.novelty"
    yield f"{prefix}.classifier.revision", classifier.checkpoint, "model", CHECKPOINT_FILES
    yield f"{prefix}.classifier.tokenizer_revision", classifier.tokenizer, "model", TOKENIZER_FILES
    yield f"{prefix}.reward.revision", reward.checkpoint, "model", CHECKPOINT_FILES
    for task in params.retention.tasks:
        yield f"retention.revisions.{task}", task_data_set(params.retention.source, task), "dataset", None
    paloma = params.paloma
    yield "paloma.revision", paloma.source, "dataset", tuple(slice_patterns(paloma.slices, paloma.split))


def downloads(params: Params) -> list[Download]:
    """What ``params`` takes from the hub."""
    revisions = hub_revisions(params)
    return [
        Download(key, repository, revisions[key], kind, files)
        for key, repository, kind, files in _possible(params)
        if repository is not None and key in revisions
    ]


def main(params: Path) -> None:
    """Fetch everything.

    Raises:
        ConfigError: Something has no commit, or could not be fetched.
    """
    config = load_params(params)
    if missing := unpinned(config):
        raise ConfigError(
            f"{params}: {', '.join(missing)}: no commit; `make pin` writes the commits into conf/, then `make params`"
        )
    failures = []
    for download in downloads(config):
        try:
            directory = download.run()
        except PipelineError as error:
            failures.append(str(error))
        else:
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
            print(f"{download.repository}: {size / 1e9:.2f} GB in {directory}", flush=True)
    if failures:
        raise ConfigError("\n  ".join([f"{len(failures)} source(s) not fetched; run it again for them:", *failures]))
    print("all that params.yaml takes from the hub is in the cache; HF_HUB_OFFLINE=1 keeps stages off the network")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="composed parameters")
    run_command(main, parser.parse_args())
