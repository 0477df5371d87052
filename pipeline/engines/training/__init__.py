"""The training loop, in one process or several."""
