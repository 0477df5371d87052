"""Windows: the drawing in the module, and that every token is scored once with the context it should have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.retention.windows import Window, scoring_windows


@pytest.mark.parametrize(
    ("num_tokens", "window", "stride", "has_bos", "expected"),
    [
        (10, 4, 2, False, [(0, 1, 4), (2, 4, 6), (4, 6, 8), (6, 8, 10)]),
        # With a BOS token a window holds one token less.
        (7, 4, 2, True, [(0, 0, 3), (2, 3, 5), (4, 5, 7)]),
        (2048, 2048, 1024, True, [(0, 0, 2047), (1024, 2047, 2048)]),
        (1, 8, 4, False, []),
    ],
)
def test_windows_by_hand(num_tokens, window, stride, has_bos, expected):
    assert scoring_windows(num_tokens, window, stride, has_bos) == [Window(*item) for item in expected]


@pytest.mark.parametrize(("window", "stride"), [(4, 4), (4, 5), (4, 0), (1, 1)])
def test_strides_that_leave_gaps_or_do_not_move(window, stride):
    with pytest.raises(ValueError, match="stride"):
        scoring_windows(10, window, stride, has_bos=True)


@given(st.integers(0, 300), st.integers(2, 40), st.data(), st.booleans())
def test_every_token_is_scored_once_and_has_context(num_tokens, window, data, has_bos):
    stride = data.draw(st.integers(1, window - 1))
    windows = scoring_windows(num_tokens, window, stride, has_bos)
    scored = [token for item in windows for token in range(item.scored, item.stop)]
    assert scored == list(range(0 if has_bos else 1, num_tokens))
    for index, item in enumerate(windows):
        assert item.start == index * stride and item.scored < item.stop
        assert item.stop - item.start + has_bos <= window
        # All windows but the first give what they score at least window - stride tokens, BOS included.
        assert item.scored - item.start + has_bos >= (1 if index == 0 else window - stride)
