"""Every metric: its name, definition and source."""
