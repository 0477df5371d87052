"""Item response theory, the tiny tasks, and the windows that perplexity is computed in."""
