"""PALOMA's documents: gzip JSON lines in the published layout, ``SLICE/SPLIT/*.jsonl.gz``, field ``text``."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipeline.artifacts.storage import sha256_file
from pipeline.config.retention import PalomaConfig, is_local_path
from pipeline.errors import ArtifactError
from pipeline.sources.repository import fetched, pinned_commit


@dataclass(frozen=True)
class DocumentFile:
    """One file of a slice."""

    slice_name: str
    path: Path
    num_documents: int  # its first so many documents are scored
    num_bytes: int  # UTF-8 bytes of their texts
    sha256: str


def slice_patterns(slices: Sequence[str], split: str) -> list[str]:
    """Patterns of the wanted files in the published layout."""
    return [f"{name}/{split}/*.jsonl.gz" for name in slices]


def open_source(settings: PalomaConfig) -> tuple[Path, str | None]:
    """Directory of the slices, and the commit of the hub's data set. Raises ArtifactError."""
    if is_local_path(settings.source):
        return Path(settings.source), None
    revision = pinned_commit(settings.source, settings.revision, "dataset")
    try:
        files = slice_patterns(settings.slices, settings.split)
        return fetched(settings.source, revision, "dataset", files=files), revision
    except ArtifactError as error:
        raise ArtifactError(f"{error}, or set paloma.source to a directory") from None


def read_documents(path: Path) -> Iterator[str]:
    """The texts of one file, in its order; blank lines are skipped."""
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _document(line, f"{path}: line {number}")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ArtifactError(f"{path}: the gzip stream is cut off or damaged behind line {number} ({error})") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None


def _document(line: bytes, where: str) -> str:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except ValueError as error:
        raise ArtifactError(f"{where} is not JSON ({error})") from None
    text = row.get("text") if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise ArtifactError(f"{where} must be a JSON object with a text in the field 'text'")
    if not text:
        raise ArtifactError(f"{where}: the document has zero bytes; its bits per byte are undefined, so remove it")
    return text


def find_documents(root: Path, slices: Sequence[str], split: str, max_per_slice: int | None) -> list[DocumentFile]:
    """The files to score, the first ``max_per_slice`` documents of each slice in the order of the files' names; a bad
    line is reported before anything is scored."""
    found = []
    for name in slices:
        files, members, left = sorted((root / name / split).glob("*.jsonl.gz")), [], max_per_slice
        if not files:
            there = sorted({path.parent.parent.name for path in root.glob(f"*/{split}/*.jsonl.gz")})
            raise ArtifactError(
                f"slice {name!r} has no files: nothing matches {root / name / split}/*.jsonl.gz; slices with the split "
                f"{split!r} are: {', '.join(there) or 'none'}"
            )
        for path in files:
            sizes = [len(text.encode()) for text in islice(read_documents(path), left)]
            left = None if left is None else left - len(sizes)
            if sizes:
                members.append(DocumentFile(name, path, len(sizes), sum(sizes), sha256_file(path)))
            if left == 0:
                break
        if not members:
            raise ArtifactError(f"slice {name!r} has no documents; its files in {root / name / split} are empty")
        found.extend(members)
    return found


def document_chunks(file: DocumentFile, start: int, end: int, chunk_bytes: int) -> Iterator[list[str]]:
    """The file's documents from ``start`` to before ``end``, in lists of ``chunk_bytes`` or more, but for the last."""
    texts, size = [], 0
    for text in islice(read_documents(file.path), start, end):
        texts.append(text)
        size += len(text.encode())
        if size >= chunk_bytes:
            yield texts
            texts, size = [], 0
    if texts:
        yield texts
