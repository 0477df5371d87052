"""Models that judge texts: NoveltyBench's evaluators, entailment, sentence embeddings."""
