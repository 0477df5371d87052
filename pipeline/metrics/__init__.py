"""Every metric of ``metrics.csv`` as one value, and the registry of all of them."""
