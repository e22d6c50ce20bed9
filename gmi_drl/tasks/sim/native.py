"""MuJoCo on CPU threads, by `mujoco.batch.Batch` (MuJoCo 4)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.sim.base import require_kept, require_same_worlds, require_settable
from gmi_drl.tasks.sim.engine import import_mujoco, send_warnings_to_logging, stage_to_refresh, stop_timers


class NativeSim:
    """A `Sim` over MuJoCo's thread pool. It computes in float64, and `get` returns float32 converted once per step.

    MuJoCo resets a world by itself when its numbers become NaN or huge, and only counts a warning. `bad` reports these
    counters, and they are cleared at once, so each failure is reported once. A control that is not finite is such a
    warning, too: MuJoCo then uses zeros for all controls of that world.

    Args:
        model_xml: The model as MJCF.
        num_env: Number of worlds N.
        substeps: Physics steps per `step`, of the model's timestep each.
        fields: mjData fields that `get` can return. If cfrc_ext (forces on bodies) is among them, all describe the new
            state, and the model needs a sensor of force or acceleration: else MuJoCo does not compute cfrc_ext.
        threads: Threads that step the worlds, the caller's included.
        device: The device of the returned tensors. The physics stays on the CPU.

    Raises:
        MachineError: mujoco 4 is not installed.
        UsageError: `num_env` or `threads` is below 1.
    """

    sets_on_device = False

    dtype = torch.float32
    """The type of the tensors that `get` returns."""

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
        if num_env < 1 or threads < 1:
            raise UsageError(f"num_env and threads must be at least 1, but are {num_env} and {threads}.")
        mujoco, batch = import_mujoco()
        send_warnings_to_logging(mujoco)
        stop_timers(mujoco)
        model = mujoco.MjModel.from_xml_string(model_xml)
        self.device = torch.device(device)
        self.num_env = num_env
        self._substeps = substeps
        self._stage = stage_to_refresh(mujoco, model, fields)
        self._batch = batch.Batch(model, num_env, nthread=threads)
        self._views: dict[str, npt.NDArray[np.float64]] = {}
        self._host: dict[str, Tensor] = {}
        self._fields: dict[str, Tensor] = {}
        for name in fields:
            self._keep(name, self._batch.bind(name))
        self._bad = torch.zeros(num_env, dtype=torch.bool, device=self.device)
        self._stale = np.ones(num_env, dtype=np.bool_)
        self.forward()

    def get(self, name: str) -> Tensor:
        """See `Sim.get`. Raises UsageError for a field that was not named at construction."""
        require_kept(name, self._fields)
        return self._fields[name]

    def set(self, name: str, mask: Tensor, value: Tensor) -> None:
        """See `Sim.set`. Raises UsageError for a field that is not in STATE_FIELDS."""
        require_settable(name)
        rows = mask.cpu().numpy()
        self._batch.bind(name)[rows] = value.detach().cpu().numpy()[rows]
        self._stale |= rows

    def step(self, ctrl: Tensor) -> None:
        """See `Sim.step`."""
        np.copyto(self._batch.bind("ctrl"), ctrl.detach().cpu().numpy())
        self._advance()
        self._bad.copy_(torch.from_numpy(self._take_warnings()))
        self._publish()

    def reset(self, mask: Tensor) -> None:
        """See `Sim.reset`."""
        rows = mask.cpu().numpy()
        if rows.any():
            self._batch.reset(rows, stage=0)
            self._stale |= rows

    def forward(self) -> None:
        """See `Sim.forward`. Forces are those of the new state with the controls that `reset` or `set` left."""
        if self._stale.any():
            self._batch.forward(self._stale)
            self._publish(self._stale)
            self._stale[:] = False

    def bad(self) -> Tensor:
        """See `Sim.bad`."""
        return self._bad

    def state_dict(self) -> dict[str, Tensor]:
        """See `Sim.state_dict`. `state` holds mjSTATE_INTEGRATION rows (float64); fields are as last returned."""
        fields = {name: tensor.clone() for name, tensor in self._host.items()}
        return {"state": torch.from_numpy(self._batch.state.copy()), **fields}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `Sim.load_state_dict`."""
        require_same_worlds(tuple(state["state"].shape), self._batch.state.shape)
        self._batch.state[:] = state["state"].numpy()
        self._batch.warning[:] = 0
        self._bad.zero_()
        self._stale[:] = False
        for name, tensor in self._host.items():
            tensor.copy_(state[name])
        self._upload()

    def close(self) -> None:
        """See `Sim.close`."""
        self._batch = None
        self._views = {}

    def _keep(self, name: str, view: npt.NDArray[np.float64]) -> None:
        """Keep this array `[N, ...]` as a field that `get` returns."""
        self._views[name] = view
        self._host[name] = torch.zeros(view.shape, dtype=self.dtype, pin_memory=self.device.type == "cuda")
        self._fields[name] = self._host[name].to(self.device)

    def _advance(self) -> None:
        """Run all substeps of a step."""
        self._batch.step(nstep=self._substeps, stage=self._stage)

    def _take_warnings(self) -> npt.NDArray[np.bool_]:
        """The worlds with warnings since the last call `[N]`. Clears the counters `[N, kinds, (last, number)]`."""
        counters = self._batch.warning
        rows: npt.NDArray[np.bool_] = counters[:, :, 1].any(axis=1)
        if rows.any():
            counters[rows] = 0
        return rows

    def _publish(self, rows: slice | npt.NDArray[np.bool_] = slice(None)) -> None:
        """Copy the fields of these worlds for `get`. In others MuJoCo's may be older than `load_state_dict`."""
        for name, view in self._views.items():
            self._host[name].numpy()[rows] = view[rows]
        self._upload()

    def _upload(self) -> None:
        if self.device.type != "cpu":
            for name, tensor in self._host.items():
                self._fields[name].copy_(tensor, non_blocking=True)
