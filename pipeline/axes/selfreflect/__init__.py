"""Summaries of a model's answers, and who reads them."""
