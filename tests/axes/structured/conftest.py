"""Parameters that reports of fabricated evaluations have, too."""

from tests.report.conftest import two_models

__all__ = ["two_models"]
