"""Hand an adapter on: ``python -m pipeline.publish`` writes a directory for others, and sends nothing unless told to.

The directory has the adapter in PEFT's format, a model card made from the report, the metrics that the card shows
(metrics.csv) and the records of all runs behind them (provenance.json). It is refused where the adapter, its
evaluations or the report are missing or are not what params.yaml, the code and the data would make now.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from pipeline.command import run_command
from pipeline.config.params import load_params
from pipeline.errors import ConfigError
from pipeline.publish import hub
from pipeline.publish.directory import collect, publish


def main(
    params: Path,
    model: str,
    method: str,
    output: Path | None,
    repository: str | None,
    push: bool,
    merged: bool,
    private: bool,
    licence: str | None,
) -> None:
    """Write the directory, and with ``push`` send it.

    Raises:
        ConfigError: Options do not fit together, or there is no token to push with.
        PipelineError: See ``collect``, ``publish`` and ``hub.push``.
    """
    for option, given in (("--push", push), ("--private", private)):
        if given and repository is None:
            raise ConfigError(f"{option} needs --repository OWNER/NAME")
    if repository is not None:
        hub.check_repository(repository)
    if push:
        hub.check_token()
    publication = replace(collect(load_params(params), model, method, licence, str(params)), repository=repository)
    directory = publish(publication, output or Path("published") / f"{model}-{method}", merged)
    for path in sorted(item for item in directory.rglob("*") if item.is_file()):
        print(f"{path}  {path.stat().st_size:,} bytes")
    if push:
        print(f"sent: {hub.push(directory, str(repository), private, f'{publication.title}: adapter and model card')}")
    else:
        to = f" to {repository}" if repository else " with --repository OWNER/NAME"
        print(f"nothing was sent; --push sends {directory}{to}")


def parse_arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.publish", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="default: %(default)s")
    parser.add_argument("--model", required=True, help="name in params.yaml (models)")
    parser.add_argument("--method", required=True, help="name in params.yaml (methods)")
    parser.add_argument("--output", type=Path, help="directory (default: published/MODEL-METHOD)")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="on the hub; the card's code reads it from there")
    parser.add_argument("--push", action="store_true", help="send the directory to the repository; needs a token")
    parser.add_argument("--private", action="store_true", help="the repository is for its owner alone")
    parser.add_argument("--merged", action="store_true", help="write merged full weights with the tokenizer as well")
    parser.add_argument(
        "--licence",
        metavar="IDENTIFIER",
        help="licence of the base checkpoint in the hub's terms, e.g. apache-2.0, where the checkpoint states none",
    )
    return parser.parse_args()


if __name__ == "__main__":
    run_command(main, parse_arguments())
