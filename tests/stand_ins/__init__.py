"""Stand-ins: tiny random checkpoints of the paper's architectures, with tokenizers that follow each family's rules.

Configuration, weight names, digits, BOS, turn ends, templates and sampling defaults are as real ones have them.
"""

SHAPE = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
)
