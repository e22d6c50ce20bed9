"""The version of the installed rsl-rl-lib, without importing it."""

from importlib.metadata import version

from gmi_drl.config.learners.entries import release

SHARES_STATISTICS = (5, 5)
"""From this version on rsl_rl's observation normalisers use the observations of all processes of a group."""


def installed() -> tuple[int, ...]:
    """Its major and minor version.

    Raises:
        PackageNotFoundError: if it is not installed.
    """
    return release(version("rsl-rl-lib"))


def text(parts: tuple[int, ...]) -> str:
    """The version as users write it."""
    return ".".join(map(str, parts))
