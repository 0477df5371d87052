"""Stage modules: read artifacts, call the core or an engine, write artifacts. One DVC stage each."""
