"""The sets of a model's laws over answers."""
