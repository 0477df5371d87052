"""The licence of a base checkpoint, as the checkpoint itself states it."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from huggingface_hub import metadata_load

from pipeline.artifacts.storage import read_json
from pipeline.config.retention import is_local_path
from pipeline.errors import ArtifactError, ConfigError, ModelError, did_you_mean, first_line
from pipeline.sources.import_gguf import RECORD
from pipeline.sources.repository import fetched

CARD = "README.md"


LICENCES = """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0
    eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 grok2-community h-research
    intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit
    mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openmdw-1.0 openrail openrail++ osl-3.0 other pddl postgresql unknown
    unlicense wtfpl zlib"""
"""Identifiers that the hub knows (https://huggingface.co/docs/hub/repositories-licenses)."""


@dataclass(frozen=True)
class Licence:
    """A licence in the hub's terms: the identifier "other" goes with a name and, where known, a link to its text."""

    identifier: str
    source: str  # who says so
    name: str | None = None
    link: str | None = None


def base_licence(checkpoint: str, revision: str | None, given: str | None = None) -> Licence:
    """The licence that a checkpoint states, else that ``given``. Raises ConfigError where none is, ArtifactError."""
    if given is not None and given not in LICENCES.split():
        nearest = did_you_mean(given, LICENCES.split())
        raise ConfigError(
            f"--licence: there is no {given!r} on the hub; {nearest}"
            "https://huggingface.co/docs/hub/repositories-licenses lists what there is"
        )
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
