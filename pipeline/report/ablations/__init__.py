"""Tables 24 to 26 and Figure 14, from the runs of sweeps."""
