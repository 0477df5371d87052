"""Windows over a document that is longer than a model's context: each scores the tokens that no earlier one has scored.

Without a BOS token nothing predicts token 0, so it is not scored. With one, every window starts with it, in the place
of one token: some models (Gemma) cannot read a text that starts without it.
"""

from typing import NamedTuple


class Window(NamedTuple):
    """Tokens ``start`` to ``stop`` of a document are in the window, those from ``scored`` on are scored in it."""

    start: int
    scored: int
    stop: int


def scoring_windows(num_tokens: int, window: int, stride: int, has_bos: bool) -> list[Window]:
    """Windows of a document in order; ``num_tokens`` are without the BOS token, ``window`` is with it.

    Raises ValueError unless the stride is between 1 and ``window`` - 1.
    """
    if not 1 <= stride < window:
        raise ValueError(f"the stride must be between 1 and the window - 1, got stride {stride} and window {window}")
    room = window - has_bos
    windows, start, scored = [], 0, 0 if has_bos else 1
    while scored < num_tokens:
        stop = min(start + room, num_tokens)
        windows.append(Window(start, scored, stop))
        start, scored = start + stride, stop
    return windows
