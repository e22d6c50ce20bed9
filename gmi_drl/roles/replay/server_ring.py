"""A table of a replay server in the place of a GMI's ring: it acts into it and learns from it, beside others."""

import os
from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import Batch
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.files.block import Block
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.ring import NEXT, RingBatch
from gmi_drl.roles.replay.sink import TableSink, split_place
from gmi_drl.workload import TaskSpec

TOKEN_VARIABLE = "GMI_DRL_REPLAY_TOKEN"
FIELDS = ("obs", "action", "reward", "terminated")
"""That a table must have to be learnt from."""

Step = dict[str, Tensor]


class ServerRing:
    """What `Ring` is to actor and learner. Steps go to the table once in an iteration, as `serve --into` writes them.

    Args:
        config: Of the learner; `replay.server` is `HOST:PORT/TABLE`.
        spec: Of the task.
        num_env: N.
        group_size: GMIs that train together, all with this table.
        device: Of batches.

    Raises:
        UsageError: if the table's items are not those of this learner, or its server writes no checkpoints and
            `replay.saved` wants them.
        ServerLostError: if the server cannot be reached.
    """

    is_twice = True
    """Whether `add` gets the observation after each step."""

    def __init__(
        self, config: OffPolicyConfig, spec: TaskSpec, num_env: int, group_size: int, device: torch.device
    ) -> None:
        replay, token = config.replay, os.environ.get(TOKEN_VARIABLE)
        assert replay.server is not None
        self.num_env, self.device = num_env, device
        self._place, self._gamma, self._least, self._group_size = (
            replay.server,
            config.gamma,
            replay.min_size,
            group_size,
        )
        address, self._table = split_place(self._place)
        self._client = Client(address, token)
        self._sink = TableSink(self._place, spec, num_env, token)
        self._steps: list[Step] = []
        self._drawn: ServerBatch | None = None
        self._items = 0
        try:
            _check(self._place, self._sink, replay.n_step)
            if replay.saved and self.server_step() is None:
                text = f"{self._place}: the server writes no checkpoints: start it with --checkpoints FOLDER"
                raise UsageError(f"{text}, or set learner.replay.saved=false")
        except BaseException:
            self.close()
            raise

    @property
    def windows(self) -> float:
        """This GMI's part of the table's items, as `can_sample` has seen them."""
        return self._items / self._group_size

    def mass(self) -> Tensor:
        """What this GMI's draws count: as much as those of the others."""
        return torch.ones((), dtype=torch.float64, device=self.device)

    def add(self, fields: Mapping[str, Tensor], boundary: Tensor, valid: Tensor) -> None:
        """Note a step of all environments; see `Ring.add`. It is sent by `can_sample`."""
        self._steps.append({**fields, "boundary": boundary.clone(), "valid": valid.clone()})
        for name in (*FIELDS, NEXT + "obs"):
            self._steps[-1][name] = self._steps[-1][name].clone()

    def can_sample(self, count: int) -> bool:
        """Send the steps that were added. Returns whether the table has `min_size` items and allows `count` samples."""
        self._send()
        self._items = self._client.info()[0]["tables"][self._table]["items"]
        if self._items < self._least:
            return False
        try:
            self._drawn = self._drawn or self._client.sample(self._table, count, timeout_s=0.0)
        except ReplayTimeoutError:
            return False
        return True

    def sample(self, count: int, *, out: RingBatch | None = None) -> RingBatch:
        """Draw `count` items; see `Ring.sample`.

        Raises:
            ReplayTimeoutError: if the limiter of the table does not allow it for a minute, with what is missing.
        """
        drawn, self._drawn = self._drawn, None
        if drawn is None or len(drawn.records) != count:
            drawn = self._client.sample(self._table, count, timeout_s=60.0)
        fields = windows_of(drawn, self._gamma)
        if out is None:
            moved = {name: value.to(self.device) for name, value in fields.items()}
        else:
            moved = out.fields
            for name, value in fields.items():
                moved[name].copy_(value)
        chances = drawn.probabilities.to(self.device)
        return RingBatch(moved, drawn.keys, chances, drawn.table_size, (drawn.rows, None))

    def update(self, keys: Tensor, priorities: Tensor) -> None:
        """Send priorities `[B]` of items that were drawn. Waits for the device."""
        self._client.update(self._table, keys, priorities.to("cpu", torch.float64))

    def server_step(self) -> int | None:
        """The step of the server's last checkpoint; None if it writes none."""
        step: int | None = self._client.info()[0]["trainer_step"]
        return step

    def save(self, step: int) -> None:
        """Let the server write its checkpoint of this step."""
        self._client.checkpoint(step)

    def check_saved(self, step: int) -> None:
        """Raise unless the server has this checkpoint, or goes on from it.

        Raises:
            UsageError: with both steps, and how to begin it.
        """
        if (there := self.server_step()) != step:
            text = f"{self._place}: this checkpoint goes with the server's of step {step}, and that has {there}"
            raise UsageError(f"{text}: gmi-drl replay serve --restore FOLDER/{step:012d}")

    def close(self) -> None:
        """End the connections."""
        self._sink.close()
        self._client.close()

    def _send(self) -> None:
        if not self._steps:
            return
        steps, self._steps = {name: torch.stack([one[name] for one in self._steps]) for name in self._steps[0]}, []
        ends = steps["boundary"] & steps["valid"]
        at = ends.nonzero()
        following = steps[NEXT + "obs"]
        self._sink.take(
            Block(
                obs=steps["obs"],
                action=steps["action"],
                reward=steps["reward"],
                terminated=steps["terminated"],
                truncated=steps["boundary"] & ~steps["terminated"],
                valid=steps["valid"],
                last_obs=following[-1],
                final_obs=following[at[:, 0], at[:, 1]],
                final_at=at,
            )
        )


def windows_of(batch: Batch, gamma: float) -> dict[str, Tensor]:
    """What a learner reads of items `[B]`, whose last row is the observation after their steps; see `RingBatch`."""
    rows = batch.fields
    steps = batch.lengths[batch.rows.signature.by_name["obs"].column] - 1
    reach = torch.arange(max(1, rows["obs"].shape[1] - 1))
    powers = gamma**reach * (reach < steps[:, None])
    each, last = torch.arange(len(steps)), (steps - 1).clamp(min=0)
    goes_on = ~rows["terminated"][each, last]
    return {
        "obs": rows["obs"][:, 0],
        "action": rows["action"][:, 0],
        "reward": (rows["reward"][:, : len(reach)] * powers).sum(1),
        "discount": (gamma**steps * goes_on).to(torch.float32),
        NEXT + "obs": rows["obs"][each, steps],
    }


def _check(place: str, sink: TableSink, n_step: int) -> None:
    """Raise unless a table has what is learnt from, and items of n steps and the observation after them."""
    if missing := [name for name in FIELDS if name not in sink.names]:
        raise UsageError(f"{place}: the table lacks {', '.join(missing)}: it needs {', '.join(FIELDS)}")
    if sink.longest != n_step + 1:
        text = f"{place}: items have up to {sink.longest} rows, learner.replay.n_step {n_step} needs {n_step + 1}"
        raise UsageError(f"{text}: set `longest` of the storage, or n_step")
