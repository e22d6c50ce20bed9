"""Planning: which layout for which workload on which node. Pure: needs neither torch nor the hardware."""

from gmi_drl.scheduler.plan import plan

__all__ = ["plan"]
