"""Windows over a document that is longer than a model's context: each scores the tokens that no earlier one has scored,
behind the BOS token if there is one (Gemma cannot read a text without it); else token 0 is not scored."""

from typing import NamedTuple


class Window(NamedTuple):
    """Tokens ``start`` to ``stop`` of a document are in the window, those from ``scored`` on are scored in it."""

    start: int
    scored: int
    stop: int


def scoring_windows(num_tokens: int, window: int, stride: int, has_bos: bool) -> list[Window]:
    """Windows, with the BOS token, of ``num_tokens`` without it. Raises ValueError unless 1 <= stride < ``window``."""
    if not 1 <= stride < window:
        raise ValueError(f"the stride must be between 1 and the window - 1, got stride {stride} and window {window}")
    room = window - has_bos
    windows, start, scored = [], 0, 0 if has_bos else 1
    while scored < num_tokens:
        stop = min(start + room, num_tokens)
        windows.append(Window(start, scored, stop))
        start, scored = start + stride, stop
    return windows
