"""Windows over a document that is longer than a model's context, each of its tokens scored once.

A window of W tokens moves on by a stride S; it scores the tokens that no earlier window has
scored, so all but the first have at least W - S tokens of context::

    tokens    0 1 2 3 4 5 6 7 8 9        W = 4, S = 2, no BOS token
    window 0  . x x x                    x scored, . context
    window 1      . . x x
    window 2          . . x x
    window 3              . . x x

Without a BOS token nothing predicts token 0, so it is not scored (as in code that shifts the labels by
one, the paper's included). With one, every window starts with it: it takes the place of one token, token 0
is scored from it, and no window shows the model a text that starts without it, which some models
(Gemma) cannot read.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Tokens ``start`` to ``stop`` of a document are in the window, those from ``scored`` on are scored in it."""

    start: int
    scored: int
    stop: int


def scoring_windows(num_tokens: int, window: int, stride: int, has_bos: bool) -> list[Window]:
    """Windows of a document in order; their scored parts follow each other without gap or overlap.

    Args:
        num_tokens: Tokens of the document, without the BOS token.
        window: Tokens per window, a BOS token among them.
        stride: Tokens by which a window starts behind the one before it; less than ``window``, so that
            the first token that a window scores has something before it.
        has_bos: Whether a BOS token stands before the document's tokens in every window.

    Returns:
        Every token is scored once with a BOS token, every token but the first without. Empty where
        nothing can be scored.

    Raises:
        ValueError: ``stride`` is not between 1 and ``window - 1``.
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
