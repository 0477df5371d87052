"""The embedded model that the demo trains on."""
