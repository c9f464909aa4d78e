"""The demo: the main job on a real Slurm, measured against the same cluster without slurmcast (docs/demo.md)."""
