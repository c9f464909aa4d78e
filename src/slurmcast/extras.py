"""What to type where an optional library is missing."""


def install(extra: str) -> str:
    """The command for ``extra`` of pyproject.toml. slurmcast isn't on PyPI: it is installed from a clone."""
    return f"pip install '.[{extra}]' in a clone of slurmcast"
