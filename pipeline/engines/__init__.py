"""The only place that imports transformers and peft: chat encoding, loading, training, generation, scoring."""
