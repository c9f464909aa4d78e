"""Align (paper, section 3): a script unlike any that the probe knows is rewritten in the style of one that it knows.

A chat server does the rewriting; the result is embedded and thrown away. The user's script is neither changed nor run.
"""

from slurmcast.align.exemplars import Exemplar, nearest
from slurmcast.align.rewriter import Result, Rewriter

__all__ = ["Exemplar", "Result", "Rewriter", "nearest"]
