"""The recipe of the embedded model: tokenizer, training text and training loop.

Only ``pipeline.demo.build_model`` uses it. The model it makes is loaded like any other
checkpoint.
"""
