"""The embedded model that the demo trains on, and stand-ins for checkpoints that a machine cannot have."""
