"""Agreement of a model's answers with people's."""
