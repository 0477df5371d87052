"""The recipe of the embedded model: tokenizer, training text and training loop."""
