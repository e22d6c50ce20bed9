"""Planning: chooses a layout for a workload on a node. Pure: needs neither torch nor the hardware."""

from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.cluster import plan_cluster
from gmi_drl.scheduler.exploration import search
from gmi_drl.scheduler.grid import grid_of, num_envs_of, profile_grid, search_grid, why_no_grid, with_caps
from gmi_drl.scheduler.paper_algorithm_2 import algorithm_2
from gmi_drl.scheduler.plan import Plan, plan, plan_measured

__all__ = [
    "Candidate",
    "Plan",
    "algorithm_2",
    "grid_of",
    "num_envs_of",
    "plan",
    "plan_cluster",
    "plan_measured",
    "profile_grid",
    "search",
    "search_grid",
    "why_no_grid",
    "with_caps",
]
