"""What cases need, as obstacles: None, or what is missing with its remedy. All are cheap."""

from importlib.util import find_spec

from gmi_drl.gmi.inventory import allowed_cores


def package(module: str, extra: str) -> str | None:
    """A package of an extra."""
    return None if find_spec(module) else f"it needs {module}: pip install 'gmi-drl[{extra}]'"


def cores(count: int) -> str | None:
    """Cores for this process."""
    has = len(allowed_cores())
    return None if has >= count else f"it needs {count} cores, this process may use {has}: widen its affinity or quota"
