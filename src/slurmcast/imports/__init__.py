"""``slurmcast import``: a site's past, from Slurm's accounting into the store."""
