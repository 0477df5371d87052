"""Stand-ins: tiny random checkpoints of the paper's architectures, with tokenizers that follow each family's rules.

Configuration, weight names, digits, BOS, turn ends, templates and sampling defaults are as real ones have them.
"""
