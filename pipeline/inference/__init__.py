"""Trained conditions and other checkpoints at work: samples in the terminal, and an OpenAI-compatible endpoint."""
