"""Running the DAG: stages side by side, plans, and workspaces."""
