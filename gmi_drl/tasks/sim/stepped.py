"""MuJoCo on CPU threads with the fields that gymnasium reads: those that `mj_step` leaves, in float64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gmi_drl.errors import UsageError
from gmi_drl.tasks.sim.engine import import_mujoco
from gmi_drl.tasks.sim.native import NativeSim

CONTACT_FORCES = "cfrc_ext"


class SteppedSim(NativeSim):
    """A `NativeSim` whose fields are those that gymnasium's `MujocoEnv` finds in mjData after its step.

    gymnasium calls `mj_step` for every substep, then `mj_rnePostConstraint`. The fields that MuJoCo derives from the
    state (xpos, cvel, contact forces) then describe the state that it evaluated last. That is the one before the last
    substep by the Euler method, and the last trial state by RK4. It is within a substep of the new state, but where a
    foot lands or lifts in between, only one of the two has a force. In worlds that `set` or `reset` has changed all
    fields are current, and the contact forces are zero, because gymnasium's reset computes none.

    Fields are float64, as in MuJoCo: a rounding of 1e-7 in a position would be one of 1e-6 in a velocity.

    Args:
        See `NativeSim`.

    Raises:
        UsageError: see `NativeSim`; or `fields` has cfrc_ext and `_ContactForces` does not support the model.
    """

    dtype = torch.float64

    def __init__(
        self,
        model_xml: str,
        num_env: int,
        *,
        substeps: int,
        fields: Sequence[str],
        threads: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        self._forces: _ContactForces | None = None
        derived = [name for name in fields if name != CONTACT_FORCES]
        super().__init__(model_xml, num_env, substeps=substeps, fields=derived, threads=threads, device=device)
        if CONTACT_FORCES in fields:
            self._forces = _ContactForces(model_xml, self._batch, threads)
            self._keep(CONTACT_FORCES, self._forces.values)

    def forward(self) -> None:
        """See `Sim.forward`."""
        if self._forces is not None:
            self._forces.values[self._stale] = 0
        super().forward()

    def close(self) -> None:
        """See `Sim.close`."""
        self._forces = None
        super().close()

    def _advance(self) -> None:
        if self._forces is None:
            self._batch.step(nstep=self._substeps)
            return
        if self._substeps > 1:
            self._batch.step(nstep=self._substeps - 1)
        warm_start = self._batch.bind("qacc_warmstart").copy()
        self._batch.step()
        self._forces.update(warm_start)


class _ContactForces:
    """cfrc_ext `[N, bodies, 6]` as `mj_rnePostConstraint` computes it after `mj_step`. A batch cannot call that.

    cfrc_ext needs the constraint forces of the state that MuJoCo evaluated last. So that state is recovered from the
    fields that were derived from it, and is evaluated once more in a second batch from the same warm start. This is one
    evaluation more than the 4 of each substep of RK4. A sensor of acceleration makes MuJoCo compute cfrc_ext there.

    Raises:
        UsageError: the model is not one robot with a free root and a motor on each other joint.
    """

    def __init__(self, model_xml: str, stepped: Any, threads: int) -> None:
        mujoco, batch = import_mujoco()
        spec = mujoco.MjSpec.from_string(model_xml)
        root = spec.worldbody.first_body()
        root.name = root.name or "root"
        linear_acceleration, body = mujoco.mjtSensor.mjSENS_FRAMELINACC, mujoco.mjtObj.mjOBJ_BODY
        spec.add_sensor(type=linear_acceleration, objtype=body, objname=root.name)
        model = spec.compile()
        if model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE or model.nv != 6 + model.nu:
            raise UsageError("contact forces (cfrc_ext) need a model with a free root and a motor on each other joint")
        joints = model.actuator_trnid[:, 0]
        self._positions, self._velocities = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self._gear = model.actuator_gear[:, 0]
        self._stepped = stepped
        needed = ("xpos", "xquat", "xmat", "cvel", "subtree_com", "actuator_length", "actuator_velocity")
        self._seen = {name: stepped.bind(name) for name in needed}
        self._evaluated = batch.Batch(model, stepped.nsim, nthread=threads)
        self._computed = self._evaluated.bind(CONTACT_FORCES)
        self.values = np.zeros((stepped.nsim, model.nbody, 6))

    def update(self, warm_start: npt.NDArray[np.float64]) -> None:
        """Compute the forces of the last step; `warm_start` `[N, nv]` was taken before its last substep."""
        worlds, seen = self._evaluated, self._seen
        worlds.state[:] = self._stepped.state
        qpos, qvel = worlds.bind("qpos"), worlds.bind("qvel")
        position, turning = seen["xpos"][:, 1], seen["cvel"][:, 1, :3]
        rotation = seen["xmat"][:, 1].reshape(-1, 3, 3)
        qpos[:, :3], qpos[:, 3:7] = position, seen["xquat"][:, 1]
        qpos[:, self._positions] = seen["actuator_length"] / self._gear
        # cvel is the velocity at the robot's centre of mass; qvel has the angular velocity in the body's own frame.
        qvel[:, :3] = seen["cvel"][:, 1, 3:] + np.cross(turning, position - seen["subtree_com"][:, 1])
        qvel[:, 3:6] = np.einsum("nij,ni->nj", rotation, turning)
        qvel[:, self._velocities] = seen["actuator_velocity"] / self._gear
        worlds.bind("qacc_warmstart")[:] = warm_start
        worlds.forward()
        self.values[:] = self._computed
