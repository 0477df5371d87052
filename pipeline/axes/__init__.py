"""What models are evaluated on: a folder for each axis, with all that is its own."""
