"""Which method to choose: of those not shown to be worse calibrated than another, the one that costs least."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """Of the candidates, the methods not shown to be worse calibrated than another, the cheapest; "" without a cost.

    ``worse`` has for each other method the split on which it is worse calibrated, the method that it is worse than
    (empty where its own W1 is undefined), and whether a paired test shows it; else intervals do.
    """

    method: str
    candidates: tuple[str, ...]
    worse: Mapping[str, tuple[str, str, bool]]


def choose_method(
    distances: Mapping[str, Mapping[str, tuple[float, float, float]]],
    verdicts: Mapping[str, Mapping[tuple[str, str], str]],
    costs: Mapping[str, float],
    margin: float,
) -> Choice:
    """Of the methods that are not shown to be worse calibrated than another, the one that costs least.

    ``distances`` are W1 with the ends of its 95% interval, by split and method, NaN where undefined; ``verdicts`` what
    paired tests say of the first method against the second, by split. A method is worse where a test with any other
    says so; or where it was not tested against the best of the split and its interval lies wholly above that one's by
    more than ``margin``. One without a finite cost cannot be chosen; of equal costs, the first is.
    """
    methods = list(dict.fromkeys(name for members in distances.values() for name in members))
    worse: dict[str, tuple[str, str, bool]] = {}
    for split, members in distances.items():
        defined = [name for name in methods if name in members and math.isfinite(members[name][0])]
        # Whether the first is shown to be worse than the second, of all tested pairs in both orders.
        tests = {}
        for (own, other), verdict in verdicts.get(split, {}).items():
            tests |= {(own, other): verdict == "worse", (other, own): verdict == "better"}
        for name in methods:
            best = min(defined, key=lambda other: members[other][0], default="")
            if name not in defined:
                worse.setdefault(name, (split, "", False))
            elif beaten := next((other for other in defined if tests.get((name, other))), ""):
                worse.setdefault(name, (split, beaten, True))
            elif (name, best) not in tests and members[name][1] > members[best][2] + margin:
                worse.setdefault(name, (split, best, False))
    candidates = tuple(name for name in methods if name not in worse)
    priced = [name for name in candidates if math.isfinite(costs.get(name, math.nan))]
    return Choice(min(priced, key=costs.__getitem__, default=""), candidates, worse)
