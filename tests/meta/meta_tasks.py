"""Tasks, and replicas in them, on the `meta` device."""

from dataclasses import replace
from functools import cache
from math import inf

import mujoco
import numpy as np
import torch
from conftest import quick_kernels
from operation_counts import META, Watch

from gmi_drl.comm.reduction import Reduction
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import default_config
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import TASKS, SimTask, Task
from gmi_drl.tasks.sim.base import STATE_FIELDS
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import continuous, image

quick_kernels()

from gmi_drl.tasks.sim.warp import WarpSim, _Shared  # noqa: E402


@cache
def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Of a world's fields, by the task's model: the state, and what the task reads."""
    data = mujoco.MjData(mujoco.MjModel.from_xml_string(TASKS[name].build_mjcf()))
    return {field: np.shape(getattr(data, field)) for field in STATE_FIELDS.union(TASKS[name].fields)}


def fields_of(name: str, num_env: int) -> dict[str, torch.Tensor]:
    """Those fields of N worlds, `[N, ...]`."""
    dtype = torch.float64 if TASKS[name].as_stepped else torch.float32
    return {field: torch.zeros(num_env, *shape, dtype=dtype, device=META) for field, shape in shapes(name).items()}


class MetaSim(WarpSim):
    """What torch does in a `WarpSim`; its graphs are counted and do nothing."""

    def __init__(self, name: str, num_env: int, watch: Watch) -> None:
        def work():
            with watch.graph():
                pass

        def mask():
            return _Shared(None, torch.zeros(num_env, dtype=torch.bool, device=META))

        self.num_env, self.device = num_env, META
        fields = fields_of(name, num_env)
        self._state = {field: fields[field] for field in STATE_FIELDS}
        self._fields = {field: fields[field] for field in TASKS[name].fields}
        self._kept = self._fields.keys() - STATE_FIELDS
        self._bad, self._stale, self._resetting = mask(), mask(), mask()
        self._overflow = _Shared(None, torch.zeros(1, dtype=torch.int32, device=META))
        self._overflow_seen, self._overflow_logged = torch.zeros(1, dtype=torch.int32), -1
        self._step = self._step_on = self._reset = self._forward = work
        self._refreshes = self._is_evaluated = False


def meta_task(watch: Watch, name: str, num_env: int = 64, **more) -> SimTask:
    """A task of ours in such worlds, whose constants have been made in a first step."""
    with watch.allow(inf):
        task = SimTask(TASKS[name], MetaSim(name, num_env, watch), seed=0, **more)
        task.step(no_action(task))
    return task


class Pixels:
    """A task on the device that shows black screens, never ends and costs nothing. `meta` draws no categories."""

    counts_by_itself, device = False, META

    def __init__(self, num_env):
        self.spec = replace(TASK_SPECS["ant"], observation=image(4, 84, 84), action=continuous(6), hidden=())
        self.num_env = num_env
        self.obs = torch.zeros(num_env, 4, 84, 84, dtype=torch.uint8, device=META)
        self.episode_length = torch.zeros(num_env, dtype=torch.int64, device=META)
        flags = torch.zeros(num_env, dtype=torch.bool, device=META)
        self._info = {"final_obs": self.obs, "bad": flags, "valid": ~flags}
        self._told = torch.zeros(num_env, device=META), flags, flags

    def step(self, action):
        return self.obs, *self._told, self._info

    def state_dict(self):
        return {}


def no_action(task: Task) -> torch.Tensor:
    """Zeros `[N, A]`."""
    return torch.zeros(task.num_env, task.spec.action.size, device=META)


def meta_replica(watch: Watch, task: Task, reduction: Reduction | None = None, **learner) -> PPOReplica:
    """One that trains in these worlds, an iteration old: as the task's configuration says, but for what is given."""
    config = default_config(task.spec)
    config = config.model_copy(update={"learner": config.learner.model_copy(update=learner)})
    with watch.allow(inf):
        replica = PPOReplica(
            task.spec, config, reduction or NoReduction(device=META), sample_share=1.0, device=META, seed=0
        )
        replica.attach_task(task, seed=0)
        replica.iterate(go_on)
    return replica


def go_on() -> Decision:
    """What rank 0 says."""
    return Decision.GO_ON
