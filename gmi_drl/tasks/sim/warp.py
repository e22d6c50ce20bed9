"""MuJoCo on a GPU, by MuJoCo Warp. This module imports warp, so `tasks.sim` imports it only when WarpSim is used."""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks.sim.base import STATE_FIELDS, require_kept, require_same_worlds, require_settable
from gmi_drl.tasks.sim.engine import import_mujoco, send_warnings_to_logging, stage_to_refresh
from gmi_drl.tasks.sim.warp_fields import keep
from gmi_drl.tasks.sim.warp_graph import Work, can_capture
from gmi_drl.tasks.sim.warp_kernels import mark_broken, mark_overflow, mark_where
from gmi_drl.tasks.sim.warp_sizes import measure_sizes

_logger = logging.getLogger(__name__)

_AFTER_CONSTRAINTS = {"cacc", "cfrc_ext", "cfrc_int"}
"""Fields that are computed after the constraint forces, and only on request."""

_TWO_HALVES = {"EULER", "IMPLICIT", "IMPLICITFAST"}
"""Integrators for which MuJoCo Warp has both halves of a step (`step1` and `step2`)."""

_LEFT_OUT = mjw.OverflowType.ALL & ~(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS)
"""Kinds of overflow that leave contacts or constraints out. A solver that stops at its limit is no failure."""

_FOR_ROWS = mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ
_ROOM_FOR = {"njmax": _FOR_ROWS, "nconmax": _LEFT_OUT & ~_FOR_ROWS}
"""The setting that is too small, by kinds of overflow."""


class _Shared(NamedTuple):
    """One array, as Warp's object and as a torch tensor."""

    array: Any
    tensor: Tensor

    @classmethod
    def of(cls, array: Any) -> "_Shared":
        return cls(array, wp.to_torch(array))


class WarpSim:
    """A `Sim` over MuJoCo Warp: float32 in the device's memory, all worlds in every kernel, no waits for the device.

    A step, a reset and a refresh (`forward`) are one graph each, because launching their hundred kernels from Python
    takes longer than most of them run. State fields are views of Warp's own arrays. All other fields are copies: a
    refresh computes every world, and worlds that have not changed must keep the forces of their last substep.

    A refresh computes what the first half of a step does, with contacts and constraints of the present state. So the
    next step begins with its second half, which saves one evaluation of positions and velocities in three or four (our
    tasks have two substeps and a refresh). A refresh solves for forces only if a field needs them.

    MuJoCo Warp does not stop a world that fails. Here `bad` reports it, and the step leaves it in its initial state. A
    world fails if a control, position, velocity or acceleration was NaN or beyond 1e10 (MuJoCo's bound), or if contacts
    or constraints were left out because their arrays were full. The worlds share the array of contacts, so too many
    contacts make every world bad. Full arrays are also logged, at the next step, so that no step waits for the device.

    Args:
        model_xml: The model as MJCF.
        num_env: Number of worlds N.
        substeps: Physics steps per `step`, of the model's timestep each.
        fields: mjData fields that `get` can return, shaped as there.
        device: The device of the physics and the tensors. On the CPU it uses one thread, much slower than NativeSim.
        nconmax: Contacts per world that memory is allocated for. Also the limit of pairs of geoms near each other.
        njmax: Constraint rows per world that memory is allocated for. By default both are measured (`warp_sizes`).
        cuda_graphs: If False, every kernel is launched from Python. Warp has graphs on the CPU, too.

    Raises:
        MachineError: mujoco 4 is not installed, or the driver refuses graphs even without conditional nodes.
        UsageError: `num_env` is below 1, MuJoCo Warp has no such field, or the model's integrator is RK4 or discrete.
    """

    sets_on_device = True

    def __init__(
        self,
        model_xml: str,
        num_env: int,
        *,
        substeps: int,
        fields: Sequence[str],
        device: str | torch.device = "cuda",
        nconmax: int | None = None,
        njmax: int | None = None,
        cuda_graphs: bool = True,
    ) -> None:
        if num_env < 1:
            raise UsageError(f"num_env must be at least 1, but is {num_env}.")
        mujoco, batch = import_mujoco()
        send_warnings_to_logging(mujoco)
        model = mujoco.MjModel.from_xml_string(model_xml)
        _require_two_halves(mujoco, model)
        self.num_env = num_env
        self.device = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0"
        stages = mujoco.mjtStage
        stage = stage_to_refresh(mujoco, model, fields)
        self._substeps = substeps
        self._refreshes = stage != stages.mjSTAGE_NONE
        self._solves_in_steps = stage == stages.mjSTAGE_ACC
        loops = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD)
        self._has_loops = bool(np.isin(model.eq_type, loops).any())
        self._state_kinds = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        self._state_size = mujoco.mj_stateSize(model, self._state_kinds)
        with wp.ScopedDevice(wp.device_from_torch(self.device)):
            self._model = _put_model(model, fields, cuda_graphs)
            measured = measure_sizes(mujoco, batch, model, self._model.nxn_geom_pair_filtered.numpy())
            self._room = {"nconmax": nconmax or measured[0], "njmax": njmax or measured[1]}
            self._data = mjw.make_data(model, nworld=num_env, **self._room)
            self._kept = keep(mujoco, model, self._data, [name for name in fields if name not in STATE_FIELDS], stage)
            self._solves = _need_forces(mujoco, model, self._kept)
            self._bad, self._stale, self._resetting = (_Shared.of(wp.zeros(num_env, dtype=bool)) for _ in range(3))
            self._every_world = _Shared.of(wp.ones(num_env, dtype=bool))
            self._overflow = _Shared.of(wp.zeros(1, dtype=int))
            wp.synchronize_device()  # finish the work on Warp's stream; from here on work is on torch's
        self._state = {name: wp.to_torch(getattr(self._data, name)) for name in STATE_FIELDS}
        self._fields = {name: self._kept[name].tensor if name in self._kept else self._state[name] for name in fields}
        self._overflow_seen = torch.zeros(1, dtype=torch.int32, pin_memory=self.device.type == "cuda")
        self._overflow_logged = 0
        second_half = partial(self._launch_step, is_evaluated=True)
        launches = (self._launch_step, second_half, self._launch_reset, self._launch_forward)
        works = (self._record(launch, cuda_graphs) for launch in launches)
        self._step, self._step_on, self._reset, self._forward = works
        self.reset(self._every_world.tensor)
        self.forward()
        self._bad.tensor.zero_()

    def get(self, name: str) -> Tensor:
        """See `Sim.get`. Raises UsageError for a field that was not named at construction."""
        require_kept(name, self._fields)
        return self._fields[name]

    def set(self, name: str, mask: Tensor, value: Tensor) -> None:
        """See `Sim.set`. Raises UsageError for a field that is not in STATE_FIELDS."""
        require_settable(name)
        field = self._state[name]
        rows = mask.view(-1, *[1] * (field.dim() - 1))
        torch.where(rows, value.to(field), field, out=field)
        self._stale.tensor.logical_or_(mask)
        self._is_evaluated = False

    def step(self, ctrl: Tensor) -> None:
        """See `Sim.step`."""
        self._report_overflow()
        self._state["ctrl"].copy_(ctrl)
        (self._step_on if self._is_evaluated else self._step)()
        self._is_evaluated = self._refreshes
        self._overflow_seen.copy_(self._overflow.tensor, non_blocking=True)

    def reset(self, mask: Tensor) -> None:
        """See `Sim.reset`."""
        self._resetting.tensor.copy_(mask)
        self._reset()
        self._is_evaluated = False

    def forward(self) -> None:
        """See `Sim.forward`. Forces are those of the new state with the controls that `reset` or `set` left."""
        if self._kept:
            self._forward()
            self._is_evaluated = True
        else:
            self._stale.tensor.zero_()

    def bad(self) -> Tensor:
        """See `Sim.bad`."""
        return self._bad.tensor

    def state_dict(self) -> dict[str, Tensor]:
        """See `Sim.state_dict`. `state` holds mjSTATE_INTEGRATION rows (float32); fields are as last returned."""
        rows = torch.zeros(self.num_env, self._state_size, device=self.device)
        self._move_state(mjw.get_state, rows)
        fields = {name: tensor.cpu().clone() for name, tensor in self._fields.items()}
        return {"state": rows.cpu(), **fields}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `Sim.load_state_dict`. The state of a NativeSim of the same model can be loaded, too."""
        require_same_worlds(tuple(state["state"].shape), (self.num_env, self._state_size))
        self._move_state(mjw.set_state, state["state"].to(self.device, torch.float32).contiguous())
        for name, tensor in self._fields.items():
            tensor.copy_(state[name])
        self._bad.tensor.zero_()
        self._stale.tensor.zero_()
        self._is_evaluated = False

    def close(self) -> None:
        """See `Sim.close`."""
        if self._data is None:
            return
        wp.synchronize_device(wp.device_from_torch(self.device))  # the last step may still use the memory
        self._report_overflow()
        del self._step, self._step_on, self._reset, self._forward
        self._model = self._data = None
        self._state, self._kept, self._fields = {}, {}, {}

    def _record(self, launch: Callable[[], None], cuda_graphs: bool) -> Work:
        """Record work as a graph. If graphs with conditional nodes are refused, this and all later ones have none.

        Conditional nodes end the solver's loop when all worlds have converged. Without them it runs all its iterations,
        in which converged worlds change no more. The nodes need a driver that supports those of Warp's toolkit, and a
        kernel that calls the device's runtime, which is not loaded by some ways of sharing a GPU.
        """
        try:
            return Work(launch, self.device, cuda_graphs)
        except MachineError as refused:
            if not self._model.opt.graph_conditional:
                raise
            self._model.opt.graph_conditional = False
            _logger.warning(
                "The solver always runs all its %d iterations here, because graphs with conditional nodes fail: %s",
                self._model.opt.iterations,
                str(refused.__cause__),  # the error itself holds arrays of the capture, which must be freed first
            )
        return Work(launch, self.device, cuda_graphs)

    def _launch_step(self, *, is_evaluated: bool = False) -> None:
        """Launch all substeps. If positions and velocities are evaluated already, skip the first half of the first."""
        data, bad = self._data, self._bad.array
        bad.zero_()
        _mark_broken(bad, data.ctrl, data.qpos, data.qvel)
        if is_evaluated:
            data.sensordata.zero_()  # a refresh may have filled it, and some sensors accumulate
        else:
            self._evaluate()
        mjw.step2(self._model, data)
        for _ in range(self._substeps - 1):
            self._prepare_loops()
            mjw.step(self._model, data)
        _mark_broken(bad, data.qpos, data.qvel, data.qacc)
        wp.launch(mark_overflow, dim=self.num_env, inputs=[data.overflow, int(_LEFT_OUT), bad, self._overflow.array])
        mjw.reset_data(self._model, data, reset=bad)
        for field in self._kept.values():
            field.copy(self._every_world.array, field.every_column)
        if self._refreshes:
            self._evaluate()
            if self._solves_in_steps:
                self._solve()
            for field in self._kept.values():
                field.copy(self._every_world.array, field.refreshed)

    def _launch_reset(self) -> None:
        mjw.reset_data(self._model, self._data, reset=self._resetting.array)
        wp.launch(mark_where, dim=self.num_env, inputs=[self._resetting.array, self._stale.array])

    def _launch_forward(self) -> None:
        self._evaluate()
        if self._solves:
            self._solve()
        for field in self._kept.values():
            field.copy(self._stale.array, field.every_column)
        self._stale.array.zero_()

    def _evaluate(self) -> None:
        """Launch the first half of a step, which evaluates positions and velocities. Clears the overflow flags."""
        self._data.overflow.zero_()
        self._prepare_loops()
        mjw.step1(self._model, self._data)

    def _solve(self) -> None:
        """Launch accelerations, forces and their sensors for the present state. The next step computes them again."""
        model, data = self._model, self._data
        mjw.fwd_actuation(model, data)
        mjw.fwd_acceleration(model, data)
        mjw.solve(model, data)
        if model.opt.run_rne_postconstraint or model.sensor_rne_postconstraint:
            mjw.rne_postconstraint(model, data)
        mjw.sensor_acc(model, data, skip_rne_postconstraint=True)

    def _prepare_loops(self) -> None:
        """Compute velocities of bodies first in models with closed loops.

        MuJoCo Warp 4.0 computes connect and weld constraints before these velocities, and so from those of the last
        call: a step too old, or of another episode after a reset.
        """
        if self._has_loops:
            mjw.kinematics(self._model, self._data)
            mjw.com_pos(self._model, self._data)
            mjw.com_vel(self._model, self._data)

    def _move_state(self, move: Callable[..., None], rows: Tensor) -> None:
        """Copy the integration state `[N, K]` from or to the worlds."""
        launch = partial(move, self._model, self._data, wp.from_torch(rows), self._state_kinds)
        Work(launch, self.device, replay=False)()

    def _report_overflow(self) -> None:
        """Log the arrays that were full in earlier steps, each kind once. The last step may not be done yet."""
        new = int(self._overflow_seen.item()) & ~self._overflow_logged
        if new:
            self._overflow_logged |= new
            _logger.warning(
                "MuJoCo Warp left out contacts or constraints because their arrays were full (%s). Those environments "
                "are reported as bad. Allocate more than the present %s",
                mjw.OverflowType(new).name,
                ", and more than ".join(
                    f"{size}={self._room[size]}: --set warp.{size}={2 * self._room[size]}"
                    for size, kinds in _ROOM_FOR.items()
                    if new & kinds
                ),
            )


def _require_two_halves(mujoco: Any, model: Any) -> None:
    integrator = mujoco.mjtIntegrator(model.opt.integrator).name.removeprefix("mjINT_")
    if integrator not in _TWO_HALVES:
        known = ", ".join(sorted(_TWO_HALVES))
        raise UsageError(f"WarpSim supports the integrators {known}, but the model has {integrator}.")


def _need_forces(mujoco: Any, model: Any, names: Collection[str]) -> bool:
    """Whether one of these fields may need forces. Only sensordata without sensors of them surely does not."""
    return any(name != "sensordata" for name in names) or bool(
        (model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC).any()
    )


def _put_model(model: Any, fields: Sequence[str], cuda_graphs: bool) -> Any:
    """Put the model on Warp's current device.

    In a graph the solver's loop ends on the device when it has converged. Without a graph the host would have to check.
    """
    placed = mjw.put_model(model)
    placed.opt.run_rne_postconstraint = not _AFTER_CONSTRAINTS.isdisjoint(fields)
    placed.opt.disableflags |= mjw.DisableBit.NATIVECCD  # it loses contacts of boxes
    placed.opt.warn_overflow = 0  # kernels would print warnings; `_report_overflow` logs them
    if wp.get_device().is_cuda:
        is_captured = cuda_graphs and can_capture(wp.get_device())
        if cuda_graphs and not is_captured:
            _logger.warning("This GPU has no memory pools, so Warp cannot record graphs: physics is many times slower")
        placed.opt.graph_conditional = is_captured and wp.is_conditional_graph_supported()  # drivers from CUDA 12.4
    return placed


def _mark_broken(broken: Any, *fields: Any) -> None:
    for field in fields:
        wp.launch(mark_broken, dim=field.shape, inputs=[field, broken])
