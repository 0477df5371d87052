"""Rows that survive a kill: a file of JSON lines that is only ever appended to.

What was appended is in the kernel's hands when ``append`` returns, so it outlives the process however that ends. It
is not flushed to the disk: that would cost a disk's round trip for every batch. A power loss may therefore cost the
batches of the last half minute or so (the kernel's write-back interval); they are then missing, and made again.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ArtifactError, storage_error


class Journal:
    """Finished rows of an unfinished piece of work. A kill costs the line it interrupts and nothing before it.

    One process at a time: another one's unfinished line would be cut off. Stages hold ``locks.exclusive``.
    """

    def __init__(self, path: Path):
        """The journal at ``path``, which need not exist; an interrupted last line is cut off."""
        self.path = path
        if path.exists():
            content = path.read_bytes()
            if not content.endswith(b"\n"):
                os.truncate(path, content.rfind(b"\n") + 1)

    def rows(self) -> list[dict[str, Any]]:
        """All rows written so far. Raises ArtifactError for a line that is not JSON."""
        if not self.path.exists():
            return []
        rows = []
        # Not splitlines(), which also splits at line breaks that JSON strings may hold.
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            try:
                rows.append(json.loads(line))
            except ValueError:
                raise ArtifactError(f"{self.path}: line {number} is not JSON; delete the file to start over") from None
        return rows

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows at the end, all of them or none. Raises StorageError, e.g. if the disk is full."""
        # ASCII, because a text may hold lone surrogates, which UTF-8 has no form for.
        left = memoryview("".join(json.dumps(row) + "\n" for row in rows).encode("ascii"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                try:
                    while left:
                        left = left[file.write(left) :]
                except OSError:
                    with contextlib.suppress(OSError):
                        file.truncate(size)
                    raise
        except OSError as error:
            raise storage_error(error, str(self.path)) or error from error
