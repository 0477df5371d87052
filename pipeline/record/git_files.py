"""Contents of files in a commit, where the working directory has moved on."""

import hashlib
import subprocess
from pathlib import Path

from pipeline.artifacts.storage import sha256_json
from pipeline.record.dvc_lock import md5_of_files

COMMITS_SEARCHED = 30


def _git(directory: Path, *arguments: str) -> bytes | None:
    """Output of a Git command; None where it fails."""
    try:
        return subprocess.run(["git", *arguments], cwd=directory, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def files_in_commit(commit: str, path: Path) -> dict[str, bytes]:
    """Contents of a file (under the name "") or of a directory's files in a commit; empty where it has none.

    Args:
        commit: Any name of a commit in the repository that holds ``path``.
        path: File or directory; links are followed in the working directory, and it may be gone there.
    """
    resolved = path.resolve()
    directory = next(parent for parent in resolved.parents if parent.is_dir())
    top = _git(directory, "rev-parse", "--show-toplevel")
    if top is None:
        return {}
    root = Path(top.decode().strip())
    name = resolved.relative_to(root.resolve()).as_posix() if resolved.is_relative_to(root.resolve()) else None
    listed = _git(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", name) if name else None
    found = {}
    for member in (listed or b"").decode().split("\0"):
        content = _git(root, "cat-file", "blob", f"{commit}:{member}") if member else None
        if content is not None:
            found[member.removeprefix(name or "").removeprefix("/")] = content
    return found


def hash_in_commit(commit: str, path: Path, algorithm: str) -> str | None:
    """The hash that a file or directory has in a commit, "md5" as DVC's or "sha256" as ours; None without it."""
    files = files_in_commit(commit, path)
    digests = {name: hashlib.new(algorithm, content).hexdigest() for name, content in files.items()}
    if not digests or "" in digests:
        return digests.get("")
    return md5_of_files(digests) if algorithm == "md5" else sha256_json(digests)


def commit_with(path: Path, algorithm: str, expected: str, first: str | None) -> str | None:
    """A commit in which a file or directory has a hash: ``first``, or the latest that changed it; None if none has."""
    directory = next(parent for parent in path.resolve().parents if parent.is_dir())
    history = _git(directory, "log", "-n", str(COMMITS_SEARCHED), "--format=%H", "--", str(path.resolve())) or b""
    candidates = [*([first] if first else []), *history.decode().split()]
    return next((commit for commit in candidates if hash_in_commit(commit, path, algorithm) == expected), None)
