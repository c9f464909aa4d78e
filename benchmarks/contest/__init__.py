"""Parts of ``make bench-contest``: the contestants for the embedded encoder, and what they are judged by."""
