"""Which rsl-rl-lib is installed, without importing it."""

import re
from importlib.metadata import version

OLDEST = (5, 4)
SHARES_STATISTICS = (5, 5)
"""Since then the observation normalisers of a group take in the observations of all its processes."""


def installed() -> tuple[int, ...]:
    """Its major and minor version.

    Raises:
        PackageNotFoundError: if it is not installed.
    """
    return tuple(map(int, re.findall(r"\d+", version("rsl-rl-lib"))[:2]))


def text(parts: tuple[int, ...]) -> str:
    """As people write it."""
    return ".".join(map(str, parts))
