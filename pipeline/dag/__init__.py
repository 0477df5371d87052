"""Stages: how each is declared, what dvc.yaml and params.yaml say of them, and how one is run."""
