"""How good estimates are: finished jobs split by time, estimators, figures, and whether to promote a model."""
