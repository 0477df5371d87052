"""Models that stay loaded while a stage does one part after the other."""

import contextlib
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Opened = TypeVar("Opened")
_KEPT: ContextVar[dict[Hashable, Any] | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def keep_last_model() -> Iterator[None]:
    """While the context is open, the model that was opened last is handed out again to whoever asks for the same."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def opened_once(key: Hashable, open_model: Callable[[], Opened]) -> Opened:
    """What ``open_model`` gives, or gave when it was last called for ``key``; another model is let go of before."""
    kept = _KEPT.get()
    if kept is None:
        return open_model()
    if key not in kept:
        # Two models at once may be more than there is memory for.
        kept.clear()
        kept[key] = open_model()
    return kept[key]
