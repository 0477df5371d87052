"""What a run depended on, the way back from a table cell to it, and W&B."""
