"""Which rsl-rl-lib is installed, without importing it."""

from importlib.metadata import version

from gmi_drl.config.learners.base import release

SHARES_STATISTICS = (5, 5)
"""Since then the observation normalisers of a group take in the observations of all its processes."""


def installed() -> tuple[int, ...]:
    """Its major and minor version.

    Raises:
        PackageNotFoundError: if it is not installed.
    """
    return release(version("rsl-rl-lib"))


def text(parts: tuple[int, ...]) -> str:
    """As people write it."""
    return ".".join(map(str, parts))
