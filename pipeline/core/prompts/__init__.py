"""What models are asked, and how answers are read."""
