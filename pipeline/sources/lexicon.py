"""A lexicon of substitutions: one JSON object with the synonyms, hypernyms and hyponyms of words."""

from pathlib import Path

from pipeline.artifacts.storage import read_json
from pipeline.core.semantics.perturbation import RELATIONS, Lexicon, substitutions
from pipeline.errors import ArtifactError


def read_lexicon(path: Path) -> Lexicon:
    """Substitutions by word in lower case: {WORD: {"synonyms": [...], "hypernyms": [...], "hyponyms": [...]}}.

    Raises:
        ArtifactError: The file is missing, no JSON object, has no word, or an entry is of another shape; names it.
    """
    if not path.is_file():
        raise ArtifactError(f"the lexicon {path} does not exist")
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise ArtifactError(f"{path} has no words; a lexicon is a JSON object of {', '.join(RELATIONS)} by word")
    for word, entry in content.items():
        if not word.strip() or not isinstance(entry, dict) or not set(entry) <= set(RELATIONS):
            raise ArtifactError(
                f"{path}: the entry {word!r} must be an object of {', '.join(RELATIONS)}, got {entry!r}"
            )
        for relation, words in entry.items():
            if not isinstance(words, list) or not all(isinstance(text, str) and text.strip() for text in words):
                raise ArtifactError(f"{path}: {word!r}: {relation} must be a list of words, got {words!r}")
    return {word.lower(): substitutions(entry) for word, entry in content.items()}
