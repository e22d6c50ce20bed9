"""Settings of users: of a run, its task, its physics and its learner."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig, default_config, load_config

# Imported when first asked for: pydantic takes a while, and `--help` does without.
_LAZY = {
    "RunConfig": "gmi_drl.config.run_config",
    "default_config": "gmi_drl.config.run_config",
    "load_config": "gmi_drl.config.run_config",
}

__all__ = ["RunConfig", "default_config", "load_config"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
