"""A model's log-probabilities: of tries, continuations and documents."""
