"""The preflight benchmark: requests with random answers show a nucleus that the first request hides."""

from benchmarks import preflight
from pipeline.engines.sampling.preflight_law import nucleus


def test_power():
    rows = {row.pop("case"): [float(value) for value in row.values()] for row in preflight.run({"cut": nucleus(0.95)})}
    assert list(rows) == ["sound", "cut", "half of the request missing", "a random adapter"]
    assert max(rows["sound"]) < 0.01 and rows["cut"][0] < 0.01
    assert min(rows[name][1] for name in rows if name != "sound") > 0.99
