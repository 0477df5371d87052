"""Chat encoding, tokenizers, checkpoints and adapters."""
