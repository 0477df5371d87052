"""What others made: checkpoints and data sets of the hub, their commits, and local copies."""
