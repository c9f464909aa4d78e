"""Parts of ``make bench-learning``: the jobs, the curve, the configuration."""
