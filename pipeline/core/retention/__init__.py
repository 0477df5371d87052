"""Item response theory, the tiny tasks, and perplexity."""
