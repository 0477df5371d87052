"""Reads what a local W&B run holds: the transaction log ``*.wandb`` of its directory.

The file is a sequence of 32 KiB blocks of records (LevelDB's log format) behind a header of 7 bytes. A
record is a protobuf message, cut into fragments where it crosses a block.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

HEADER_BYTES = 7
BLOCK_BYTES = 32768
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def read_messages(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a transaction log with the position behind each; ends where a killed process stopped."""
    position, parts = HEADER_BYTES, []
    while position + HEADER_BYTES <= len(content):
        left = BLOCK_BYTES - position % BLOCK_BYTES
        if left < HEADER_BYTES:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, position)
        start = position + HEADER_BYTES
        position = start + size
        if kind not in (FULL, FIRST, MIDDLE, LAST) or position > len(content):
            return
        if kind in (FULL, FIRST):
            parts = []
        parts.append(content[start:position])
        if kind in (FULL, LAST):
            yield position, b"".join(parts)


def cut_incomplete(path: Path) -> int:
    """Remove what a killed process wrote of its last message, which ``wandb sync`` takes for a run that goes on.

    Returns:
        Number of messages left.
    """
    ends = [end for end, _ in read_messages(path.read_bytes())]
    if ends and ends[-1] < path.stat().st_size:
        os.truncate(path, ends[-1])
    return len(ends)


def last_step(directory: Path, run_id: str) -> int:
    """The highest step in the local directories of a run; -1 where there is none.

    Args:
        directory: W&B's directory, with one entry for each time that the run was started.
        run_id: Id of the run.
    """
    from google.protobuf.message import DecodeError
    from wandb.proto.wandb_internal_pb2 import Record

    last = -1
    for path in directory.glob(f"*run-*-{run_id}/run-{run_id}.wandb"):
        for _, message in read_messages(path.read_bytes()):
            record = Record()
            try:
                record.ParseFromString(message)
            except DecodeError:
                break
            if record.WhichOneof("record_type") == "history":
                last = max(last, record.history.step.num)
    return last
