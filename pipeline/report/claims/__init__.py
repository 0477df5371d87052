"""What a set of evaluations says of the claims of the paper."""
