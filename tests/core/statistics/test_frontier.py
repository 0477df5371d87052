"""Which method is chosen, from distances, tests and costs made by hand."""

import math

from pipeline.core.statistics.frontier import Choice, choose_method


def near(**values):
    """W1 by method, with intervals of 0.01 to both sides."""
    return {name: (value, value - 0.01, value + 0.01) for name, value in values.items()}


def test_of_methods_as_well_calibrated_the_cheapest_is_chosen():
    both = near(soft=0.10, hard=0.11, anchored=0.11)
    costs = {"soft": 0.5, "hard": 0.3, "anchored": 0.1}
    found = choose_method({"ood": both, "unseen": both}, {}, costs, margin=0.01)
    assert found == Choice("anchored", ("soft", "hard", "anchored"), {})
    assert choose_method({"ood": both}, {}, {"soft": 0.2, "hard": 0.2}, 0.01).method == "soft"
    assert choose_method({"ood": both}, {}, {"soft": math.nan}, 0.01) == Choice("", ("soft", "hard", "anchored"), {})
    assert choose_method({}, {}, {}, 0.01) == Choice("", (), {})


def test_tests_decide_and_intervals_only_where_there_is_none():
    distances = {"ood": near(soft=0.10, far=0.20), "unseen": near(soft=0.10, far=0.10)}
    costs = {"soft": 0.5, "far": 0.1}
    # 0.19 is more than the margin above 0.11.
    assert choose_method(distances, {}, costs, 0.01).worse == {"far": ("ood", "soft", False)}
    assert choose_method(distances, {}, costs, 0.08).method == "far"
    # A test that cannot tell is a test; one of the other order is the same.
    assert choose_method(distances, {"ood": {("far", "soft"): "cannot tell"}}, costs, 0.01).method == "far"
    for pair, verdict in ((("far", "soft"), "worse"), (("soft", "far"), "better")):
        found = choose_method(distances, {"ood": {pair: verdict}}, costs, 0.08)
        assert found == Choice("soft", ("soft",), {"far": ("ood", "soft", True)})
    # Tests on one split say nothing of the other.
    assert choose_method(distances, {"unseen": {("far", "soft"): "better"}}, costs, 0.01).method == ""


def test_a_test_against_any_method_counts_not_only_against_the_best():
    """Half was tested against soft, and not against hard, which is the best and whose interval it overlaps."""
    distances = {"ood": {"soft": (0.09, 0.05, 0.13), "hard": (0.08, 0.05, 0.12), "half": (0.14, 0.10, 0.18)}}
    verdicts = {"ood": {("soft", "hard"): "cannot tell", ("half", "soft"): "worse"}}
    found = choose_method(distances, verdicts, {"soft": 0.5, "hard": 0.9, "half": 0.1}, 0.01)
    assert found == Choice("soft", ("soft", "hard"), {"half": ("ood", "soft", True)})


def test_an_undefined_distance_is_no_candidate():
    distances = {"ood": near(soft=0.1, hard=math.nan), "unseen": near(soft=0.1, hard=0.1, late=0.1)}
    found = choose_method(distances, {}, {"soft": 0.5, "hard": 0.1, "late": 0.1}, 0.01)
    assert found == Choice("soft", ("soft",), {"hard": ("ood", "", False), "late": ("ood", "", False)})
