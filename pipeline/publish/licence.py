"""The licence of a base checkpoint, as the checkpoint itself states it."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from huggingface_hub import metadata_load

from pipeline.artifacts.storage import read_json
from pipeline.config.retention import is_local_path
from pipeline.errors import ArtifactError, ConfigError, ModelError, first_line
from pipeline.sources.import_gguf import RECORD
from pipeline.sources.repository import fetched

CARD = "README.md"


@dataclass(frozen=True)
class Licence:
    """A licence in the hub's terms: the identifier "other" goes with a name and, where known, a link to its text."""

    identifier: str
    source: str  # who says so
    name: str | None = None
    link: str | None = None


def base_licence(checkpoint: str, revision: str | None, given: str | None = None) -> Licence:
    """The licence that a checkpoint states, else that ``given``. Raises ConfigError where none is, ArtifactError."""
    stated, reason = None, f"neither {CARD} nor {RECORD} of {checkpoint} has one"
    try:
        local = is_local_path(checkpoint)
        directory = Path(checkpoint) if local else fetched(checkpoint, revision, "model", files=[CARD])
        stated = _stated(directory, checkpoint)
    except ModelError as error:
        reason = str(error)
    if stated is None and given is None:
        raise ConfigError(
            f"--licence: the licence of {checkpoint} is not known ({reason}), and is not guessed; give its identifier, "
            "e.g. --licence apache-2.0 (https://huggingface.co/docs/hub/repositories-licenses)"
        )
    if stated is not None and given not in (None, stated.identifier):
        raise ConfigError(
            f"--licence: {given} contradicts {stated.source}, which says {stated.identifier}; leave the option out"
        )
    return stated or Licence(str(given), "whoever has published this adapter")


def _stated(directory: Path, checkpoint: str) -> Licence | None:
    card, record = directory / CARD, directory / RECORD
    try:
        stated = (metadata_load(card) if card.is_file() else None) or {}
    except (ValueError, yaml.YAMLError) as error:
        raise ArtifactError(f"{card}: its metadata is not YAML ({first_line(error)})") from None
    if identifier := stated.get("license"):
        source = f"the model card of {checkpoint}"
        return Licence(str(identifier), source, stated.get("license_name"), stated.get("license_link"))
    if record.is_file() and (identifier := read_json(record).get("license")):
        return Licence(identifier, f"the GGUF file that {checkpoint} was imported from")
    return None
