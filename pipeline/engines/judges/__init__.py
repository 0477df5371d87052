"""Models that judge texts: NoveltyBench's evaluators, and one that guesses words."""
