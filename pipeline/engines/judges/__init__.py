"""NoveltyBench's evaluators."""
