"""Named streams: equal names, equal numbers; different names, different numbers."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.random_streams import random_stream, stream_seed

names = st.lists(st.one_of(st.text(max_size=8), st.integers(0, 5)), max_size=4).map(tuple)


@given(st.integers(0, 2**62), names, names)
def test_streams_are_named(seed, first, second):
    assert stream_seed(seed, *first) == stream_seed(seed, *first)
    assert 0 <= stream_seed(seed, *first) < 2**63
    if [(type(n), n) for n in first] != [(type(n), n) for n in second]:
        assert stream_seed(seed, *first) != stream_seed(seed, *second)


def test_known_values_do_not_change():
    # Artifacts are only reproducible while these hold.
    assert stream_seed(0, "order", "embedded", 1) == 7238302185856191553
    assert random_stream(0, "a").random() == 0.055281216090897645
