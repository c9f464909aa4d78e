"""What the finished runs used and how good their estimates were, for people: ``slurmcast report`` (docs/report.md)."""
