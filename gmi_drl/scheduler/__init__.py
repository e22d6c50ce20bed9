"""Planning: which layout for which workload on which node. Pure: needs neither torch nor the hardware."""

from gmi_drl.scheduler.plan import plan, plan_measured
from gmi_drl.scheduler.search import Candidate, search

__all__ = ["Candidate", "plan", "plan_measured", "search"]
