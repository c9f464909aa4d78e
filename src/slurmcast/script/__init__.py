"""The script reader: a batch script and what Slurm says about it, to a GPU request, launched sources and numbers."""

from slurmcast.script.reader import read
from slurmcast.script.sources import Found, Missing, OwnedFiles, SourceReader, no_sources

__all__ = ["Found", "Missing", "OwnedFiles", "SourceReader", "no_sources", "read"]
