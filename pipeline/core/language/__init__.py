"""Metrics of open-ended answers, multiple choice and NoveltyBench."""
