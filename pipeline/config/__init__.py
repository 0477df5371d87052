"""The schema of ``params.yaml``, one frozen dataclass per section, and what is wrong with an override."""
