"""Reads experience: transitions in any order, or blocks in the order of time."""

import hashlib
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.utils.data import Dataset

from gmi_drl.errors import UsageError
from gmi_drl.replay.files.block import TENSORS, Block
from gmi_drl.replay.files.index import ExperienceIndex, Shard, read_index
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Observation

OPEN = 64
"""Shards that are mapped into memory at the same time, at most."""


class ExperienceDataset(Dataset[dict[str, Tensor]]):
    """The transitions in a folder that `gmi-drl serve --experience FOLDER` has written.

    Item i is a dict: `obs` `[O]`, `action` `[A]`, `reward` `[]`, `next_obs` `[O]`, `terminated` and `truncated` (bool
    `[]`). Steps that are no transitions are left out. Transitions are ordered by GMI, then step, then environment; a
    `torch.utils.data.DataLoader` shuffles and stacks them. Where the simulator gives no last observations
    (`knows_final_obs` False) `next_obs` of an episode's end is `obs`.

    An observation of several parts has an entry for each: `obs/camera`.

    Shards are mapped, not loaded: they use the system's page cache only. The digest of a shard is checked when a
    process opens it first. Later changes of the file are not noticed.

    Args:
        folder: With an `index.json`; shards that are not in it are ignored.

    Attributes:
        index: Facts about the experience, and its shards.

    Raises:
        UsageError: if it is no such folder, or a shard is missing or of another length; later, naming the file, if a
            shard is broken.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.index: ExperienceIndex = read_index(self.folder)
        self._shards = [(gmi_id, shard) for gmi_id, gmi in sorted(self.index.gmis.items()) for shard in gmi.shards]
        self._ends = list(accumulate(shard.transitions for _, shard in self._shards))
        self._open: OrderedDict[int, _OpenShard] = OrderedDict()
        self._checked = set[int]()
        for _, shard in self._shards:
            path = self.folder / shard.file
            if not path.is_file():
                raise UsageError(f"{path} is missing")
            if path.stat().st_size != shard.bytes:
                raise UsageError(f"{path} has {path.stat().st_size} bytes, it was written with {shard.bytes}")

    @property
    def knows_final_obs(self) -> bool:
        """Whether `next_obs` of an episode's end is the last observation there."""
        return all(shard.knows_final_obs for _, shard in self._shards)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"transition {index} of {len(self)}")
        number = bisect_right(self._ends, position)
        return self._opened(number).transition(position - (self._ends[number - 1] if number else 0))

    def blocks(self, gmi_id: int) -> Iterator[Block]:
        """The blocks of a GMI in the order of time. Each continues the one before.

        Raises:
            UsageError: if there is no such GMI, or a shard is broken.
        """
        if gmi_id not in self.index.gmis:
            raise UsageError(f"{self.folder} has experience of GMIs {sorted(self.index.gmis)}, none of GMI {gmi_id}")
        for number, (of, _) in enumerate(self._shards):
            if of == gmi_id:
                yield self._opened(number).block

    def __getstate__(self) -> dict[str, object]:
        """Without mapped shards: each worker process of a DataLoader maps them itself."""
        return {**self.__dict__, "_open": OrderedDict()}

    def _opened(self, number: int) -> "_OpenShard":
        """The shard of this number, mapped. The least recently used one is closed if there are too many."""
        if number not in self._open:
            gmi_id, shard = self._shards[number]
            path = self.folder / shard.file
            if number not in self._checked:
                _check_digest(path, shard.sha256)
                self._checked.add(number)
            block = _mapped(path, shard, self.index, self.index.gmis[gmi_id].num_env)
            self._open[number] = _OpenShard(block, self.index.observation)
            if len(self._open) > OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]


class _OpenShard:
    """A block with access to its transitions by number."""

    def __init__(self, block: Block, observation: Observation) -> None:
        self.block, self._observation = block, observation
        self._ended_at: list[int] = (block.final_at[:, 0] * block.num_env + block.final_at[:, 1]).tolist()
        gaps = (~block.valid).flatten().nonzero().flatten().tolist()
        self._before_gap = [step - gaps_before for gaps_before, step in enumerate(gaps)]  # transitions before each gap

    def transition(self, number: int) -> dict[str, Tensor]:
        block = self.block
        flat_index = number + bisect_right(self._before_gap, number)
        step, env = divmod(flat_index, block.num_env)
        end = bisect_left(self._ended_at, flat_index)
        if end < len(self._ended_at) and self._ended_at[end] == flat_index:
            next_obs = block.final_obs[end]
        else:
            next_obs = block.obs[step + 1, env] if step + 1 < block.steps else block.last_obs[env]
        return {
            **self._parts("obs", block.obs[step, env]),
            "action": block.action[step, env].clone(),
            "reward": block.reward[step, env].clone(),
            **self._parts("next_obs", next_obs),
            "terminated": block.terminated[step, env].clone(),
            "truncated": block.truncated[step, env].clone(),
        }

    def _parts(self, name: str, obs: Tensor) -> dict[str, Tensor]:
        """An observation by name, by `NAME/PART` if it has several parts; copies."""
        if len(self._observation.parts) == 1:
            return {name: obs.clone()}
        parts = parts_of(obs.clone(), self._observation)
        return {f"{name}/{part}": tensor for part, tensor in parts.items()}


def _check_digest(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if digest != sha256:
        raise UsageError(f"{path} was changed since it was written")


def _mapped(path: Path, shard: Shard, index: ExperienceIndex, num_env: int) -> Block:
    """Map a shard, and check its shapes against the index."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in TENSORS}
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    each, seen = (shard.steps, num_env), index.observation.shape
    shapes = {name: each for name in ("reward", "terminated", "truncated", "valid")} | {
        "obs": (*each, *seen),
        "action": (*each, index.num_actions),
        "last_obs": (num_env, *seen),
        "final_obs": (shard.ends, *seen),
        "final_at": (shard.ends, 2),
    }
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise UsageError(f"{path}: {name} is {tuple(tensors[name].shape)}, the index has {shape}")
    return Block(**tensors, knows_final_obs=shard.knows_final_obs)
