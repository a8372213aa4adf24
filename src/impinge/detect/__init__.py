"""Who meets whom: detectors and their results."""
