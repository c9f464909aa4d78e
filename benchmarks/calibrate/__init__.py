"""The search for data centres whose Simple rule does as the paper's: ``python -m benchmarks.calibrate``."""
