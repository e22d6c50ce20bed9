"""rsl_rl's runner and PPO as members of a group of GMIs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.runners import OnPolicyRunner

from gmi_drl.comm.group import Group
from gmi_drl.comm.reduction import Reduction
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError, place_of
from gmi_drl.roles.rsl_rl import version
from gmi_drl.roles.rsl_rl.class_check import find, fitted
from gmi_drl.roles.rsl_rl.shared_statistics import with_shared_statistics
from gmi_drl.tasks.rsl_rl_env import RslRlEnv

LOOPBACK = "lo"


class GroupRunner(OnPolicyRunner):  # type: ignore[misc]
    """rsl_rl's `OnPolicyRunner` as one rank of a group, on whatever device its GMI has.

    Policies must be equal at the start, since none is broadcast. Gradients are weighted by samples. Each GMI normalises
    its own advantages, and the KL of a mini-batch is a plain mean over the GMIs, as in rsl_rl over GPUs.

    Args:
        env: The environments of this GMI.
        config: rsl_rl's `train_cfg`; left as it is.
        reduction: Of the group.
        sample_share: Samples that this GMI learns from divided by those of the whole group.
        log_dir: Where rsl_rl's own logger writes; None for nothing.

    Raises:
        UsageError: if the algorithm is no PPO, the configuration has options that the installed version lacks, or
            rsl_rl refuses it.
    """

    def __init__(
        self, env: RslRlEnv, config: dict[str, Any], *, reduction: Reduction, sample_share: float, log_dir: Path | None
    ) -> None:
        self._rank, self._size = reduction.group.rank, reduction.group.size
        name = config["algorithm"].get("class_name", "PPO")
        algorithm = _group_ppo(name, reduction, sample_share)
        config = fitted(deepcopy(config))
        config["algorithm"]["class_name"] = algorithm
        try:
            super().__init__(env, config, str(log_dir) if log_dir else None, str(env.device))
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # rsl_rl refuses settings by any of these
            reason = f"{type(error).__name__}: {error} ({place_of(error)})"
            raise UsageError(f"learner.runner: rsl_rl refuses these settings for this task: {reason}") from error
        config["algorithm"]["class_name"] = name  # loggers write it

    def _configure_multi_gpu(self) -> None:
        """Take rank and size from the group, not from environment variables. The process group exists already."""
        self.gpu_world_size, self.gpu_global_rank, self.gpu_local_rank = self._size, self._rank, 0
        self.is_distributed = False  # `learn` need not broadcast; the algorithm goes by `multi_gpu`
        ranks = {"global_rank": self._rank, "local_rank": 0, "world_size": self._size}
        self.cfg["multi_gpu"] = ranks if self._size > 1 else None


def _group_ppo(name: str, reduction: Reduction, sample_share: float) -> type:
    """A subclass of the PPO of this name whose gradients are weighted by the samples and summed by our reduction."""
    base: Any = find("learner.runner.algorithm.class_name", name)
    if not (isinstance(base, type) and issubclass(base, PPO)):
        raise UsageError(f"learner.runner.algorithm.class_name: {name} is not rsl_rl's PPO nor a subclass of it")
    if reduction.group.size > 1 and version.installed() < version.SHARES_STATISTICS:
        base = with_shared_statistics(base)

    class GroupPPO(base):  # type: ignore[misc]
        """Sums gradients by our reduction, where rsl_rl uses NCCL."""

        def reduce_parameters(self) -> None:
            networks = [self.actor, self.critic, *([self.rnd] if self.rnd else [])]
            parameters = chain.from_iterable(network.parameters() for network in networks)
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            bucket = torch.cat([gradient.view(-1) for gradient in gradients]).mul_(sample_share)
            reduction.reduce(bucket)
            start = 0
            for gradient in gradients:
                gradient.copy_(bucket[start : start + gradient.numel()].view_as(gradient))
                start += gradient.numel()

    return GroupPPO


@contextmanager
def process_group(group: Group, store: Path, hang_s: float) -> Iterator[None]:
    """Open torch's default process group, gloo over the loopback interface, for the time of a `with` block.

    rsl_rl sends the KL and the learning rate of each mini-batch through it, and the moments of its observation
    normalisers. A group of one GMI needs none.

    Args:
        group: The ranks.
        store: An unused path on this host, the same for all ranks.
        hang_s: Deadline of an operation, in seconds.

    Raises:
        PeerDiedError: if another rank ends during an operation.
        PeerSilentError: if another rank is alive and late by `hang_s`.
    """
    if group.size == 1:
        yield
        return
    os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
    distributed: Any = torch.distributed  # torch's stubs lack the store
    is_connected = False
    try:
        distributed.init_process_group(
            "gloo",
            store=distributed.FileStore(str(store), group.size),
            rank=group.rank,
            world_size=group.size,
            timeout=timedelta(seconds=hang_s),
        )
        is_connected = True
        yield
    except RuntimeError as error:
        if is_connected and "gloo" not in str(error).lower():
            raise
        if "timed out" in str(error).lower() or "timeout" in str(error).lower():
            raise PeerSilentError(f"a GMI of the group has not answered within {hang_s} s (hang_s): {error}") from error
        raise PeerDiedError(f"a GMI of the group has ended: {error}") from error
    finally:
        if is_connected:
            distributed.destroy_process_group()
