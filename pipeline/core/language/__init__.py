"""Diversity of answers, and NoveltyBench's rules."""
