"""Public benchmarks of sampling, asked of this project's models."""
