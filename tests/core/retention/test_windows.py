"""Every token is scored once, with the context it should have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.retention.windows import Window, scoring_windows


def test_windows_by_hand():
    windows = [(0, 1, 4), (2, 4, 6), (4, 6, 8), (6, 8, 10)]
    assert scoring_windows(10, 4, 2, has_bos=False) == [Window(*window) for window in windows]
    # With a BOS token a window holds one token less.
    assert scoring_windows(7, 4, 2, has_bos=True) == [Window(*window) for window in [(0, 0, 3), (2, 3, 5), (4, 5, 7)]]
    for stride in (0, 4):
        with pytest.raises(ValueError, match="stride"):
            scoring_windows(10, 4, stride, has_bos=True)


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
