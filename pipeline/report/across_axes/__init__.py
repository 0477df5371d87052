"""Tables and figures that compare over several axes, models or training seeds."""
