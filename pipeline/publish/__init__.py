"""An adapter for others: a directory with weights, model card and metrics, and on request a repository of the hub."""
