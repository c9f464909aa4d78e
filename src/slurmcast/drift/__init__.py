"""The loop: whether estimates still hold what they promise, when to train again, and what trainings did."""
