"""A table of a replay server in the place of a GMI's ring: it acts into it and learns from it, beside others."""

import os
from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import Batch
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.client.sampler import Sampler
from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.files.block import Block
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.ring import NEXT, RingBatch
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.windows import n_step_return
from gmi_drl.roles.replay.batch_upload import BatchUpload
from gmi_drl.roles.replay.server_check import FIELDS, TOKEN_VARIABLE, check_saves, check_table
from gmi_drl.roles.replay.sink import TableSink, split_place
from gmi_drl.workload import TaskSpec

WAIT_S = 60.0
"""Seconds for which the limiter of the table may hold a batch back."""

CHANCES = "probabilities"  # beside the fields of a batch

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
        self._sampler: tuple[int, Sampler] | None = None  # with the items of its batches
        self._upload = BatchUpload(device)
        self._updates, self._left = config.updates, 0  # batches of an iteration; those that it still draws
        self._items = 0
        try:
            check_table(self._place, self._sink.names, self._sink.longest, replay.n_step)
            check_saves(self._place, config, self.server_step())
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
        """Send the steps that were added. Returns whether the table has `min_size` items and allows `count` samples.

        `count` is 0 if batches are recorded episodes alone.
        """
        self._send()
        self._items = self._client.info()[0]["tables"][self._table]["items"]
        if self._items < self._least:
            return False
        if count and self._drawn is None:
            try:
                self._drawn = self._client.sample(self._table, count, timeout_s=0.0)
            except ReplayTimeoutError:
                return False
        self._left = self._updates
        return True

    def sample(self, count: int, *, out: RingBatch | None = None) -> RingBatch:
        """Draw `count` items; see `Ring.sample`.

        If another batch of this iteration follows, it is asked for here, and comes while this one is learnt from. So
        it is drawn before this one's new priorities are there. Nothing is asked for beyond an iteration.

        Raises:
            ReplayTimeoutError: if the limiter of the table does not allow it for a minute, with what is missing.
        """
        drawn, self._drawn = self._drawn, None
        if drawn is None or len(drawn.records) != count:
            drawn = self._next(count)
        self._left -= 1
        if self._left > 0:
            self._sampler_of(count).ask()
        fields = {**windows_of(drawn, self._gamma), CHANCES: drawn.probabilities}
        if out is None:
            moved = {name: torch.empty_like(value, device=self.device) for name, value in fields.items()}
            rows: tuple[Rows | None, ...] = (drawn.rows, None)
        else:
            moved = {**out.fields, CHANCES: out.probabilities}
            rows = out.rows  # a learner keeps its CUDA graphs as long as they are the same
        self._upload.start(fields, moved)
        chances = moved.pop(CHANCES)
        return RingBatch(moved, drawn.keys, chances, drawn.table_size, rows)

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
        if self._sampler is not None:
            self._sampler[1].close()
        self._sink.close()
        self._client.close()

    def _sampler_of(self, count: int) -> Sampler:
        """What asks for batches of `count` items."""
        if self._sampler is None or self._sampler[0] != count:
            if self._sampler is not None:
                self._sampler[1].close()
            made = self._client.sampler(self._table, count, max_in_flight=count, timeout_s=WAIT_S)
            self._sampler = count, made
        return self._sampler[1]

    def _next(self, count: int) -> ServerBatch:
        """The next batch, which may have been asked for already."""
        found = next(sampler := self._sampler_of(count), None)
        if found is None:  # the limiter has not allowed it in time: a sampler just ends then
            sampler.close()
            self._sampler = None
            return self._client.sample(self._table, count, timeout_s=0.0)
        return found

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
    each, last = torch.arange(len(steps)), (steps - 1).clamp(min=0)
    reward = rows["reward"][:, : max(1, rows["obs"].shape[1] - 1)]
    total, discount = n_step_return(reward, steps, ~rows["terminated"][each, last], gamma)
    return {
        "obs": rows["obs"][:, 0],
        "action": rows["action"][:, 0],
        "reward": total,
        "discount": discount,
        NEXT + "obs": rows["obs"][each, steps],
    }
