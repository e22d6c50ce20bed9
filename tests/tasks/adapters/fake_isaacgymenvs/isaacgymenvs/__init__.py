"""A fake of IsaacGymEnvs: its `make`, and tasks that behave as its own do towards who steps them."""

import isaacgym  # noqa: F401  as the real one does

from .fake_tasks import make

__all__ = ["make"]
