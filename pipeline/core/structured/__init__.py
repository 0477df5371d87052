"""Metrics of structured sampling."""
