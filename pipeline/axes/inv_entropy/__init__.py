"""Inv-Entropy of answers to perturbed questions."""
