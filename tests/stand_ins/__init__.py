"""Stand-ins: tiny random checkpoints of the paper's architectures, with tokenizers that follow each family's rules.

They let every stage of the paper's experiment run where neither the checkpoints nor a GPU are at hand. What is
real: the configuration and weight names that transformers loads, digit grouping, BOS, turn ends, chat template
features, and sampling defaults in ``generation_config.json`` that the pipeline must not pick up. What is not: they
know nothing, so their figures mean nothing.
"""
