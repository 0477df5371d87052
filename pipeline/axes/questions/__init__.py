"""What the axes of questions share: prompt sets, classes of answers, people against people."""
