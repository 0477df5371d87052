"""Windows: the drawing in the module, and that every token is scored once with the context it should have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.retention.windows import Window, scoring_windows


def test_without_bos():
    assert scoring_windows(10, 4, 2, has_bos=False) == [
        Window(0, 1, 4),
        Window(2, 4, 6),
        Window(4, 6, 8),
        Window(6, 8, 10),
    ]


def test_with_bos_a_window_holds_one_token_less():
    assert scoring_windows(7, 4, 2, has_bos=True) == [
        Window(0, 0, 3),
        Window(2, 3, 5),
        Window(4, 5, 7),
    ]


def test_the_paper_s_sizes():
    assert scoring_windows(3000, 2048, 1024, has_bos=False) == [Window(0, 1, 2048), Window(1024, 2048, 3000)]
    assert scoring_windows(2048, 2048, 1024, has_bos=False) == [Window(0, 1, 2048)]
    assert scoring_windows(2048, 2048, 1024, has_bos=True) == [Window(0, 0, 2047), Window(1024, 2047, 2048)]


@pytest.mark.parametrize(("num_tokens", "has_bos", "count"), [(0, True, 0), (0, False, 0), (1, True, 1), (1, False, 0)])
def test_documents_of_nothing_or_one_token(num_tokens, has_bos, count):
    assert len(scoring_windows(num_tokens, 8, 4, has_bos)) == count


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
