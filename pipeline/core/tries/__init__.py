"""Token prefix tries of canonical strings (Eq. 1)."""
