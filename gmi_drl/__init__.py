"""gmi-drl: cut each GPU (or CPU) into GMIs and run simulator, agent and trainer on them."""

import importlib
from typing import Any

__version__ = "0.1.0"

# What is not needed for `--help` is imported when it is first touched: torch and pydantic take seconds.
_LAZY = {
    "DRL_role": "gmi_drl.roles.drl_role",
    "GMI_manager": "gmi_drl.roles.manager",
    "plan": "gmi_drl.api",
    "run_role": "gmi_drl.launch.run_role",
    "train": "gmi_drl.api",
}

__all__ = ["DRL_role", "GMI_manager", "__version__", "plan", "run_role", "train"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gmi_drl' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
