"""What a model's law over answers means: classes of answers, calibration, agreement with people, uncertainty."""
