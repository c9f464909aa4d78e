"""``slurmcast label``: batch scripts run on purpose, often enough and undisturbed, so that their times can be trusted
(docs/labelling.md).

After the paper (arXiv 2608.18503, A.2): each script at least twice on each GPU type, GPUs not shared with others, and
the values of a pair closer than 10 % of their mean.
"""
