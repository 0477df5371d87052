"""A model's law over answers, computed instead of sampled."""
