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

    Policies must start alike: none is broadcast. Gradients are weighed by samples; advantages are normalised by each
    GMI, and the KL of a mini-batch is a plain mean over the GMIs, as rsl_rl does it over GPUs.

    Args:
        env: The worlds of this GMI.
        config: rsl_rl's `train_cfg`; left as it is.
        reduction: Of the group.
        sample_share: Samples that this GMI learns from divided by those of the whole group.
        log_dir: Where rsl_rl's own logger writes; None for nothing.

    Raises:
        UsageError: if the algorithm is no PPO, the configuration asks for what the installed version lacks, or rsl_rl
            refuses it.
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
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # so rsl_rl refuses settings
            said = f"{type(error).__name__}: {error} ({place_of(error)})"
            raise UsageError(f"learner.runner: rsl_rl refuses these settings for these worlds: {said}") from error
        config["algorithm"]["class_name"] = name  # as loggers write it

    def _configure_multi_gpu(self) -> None:
        """Rank and size are those of the group, not the environment's; the process group is there already."""
        self.gpu_world_size, self.gpu_global_rank, self.gpu_local_rank = self._size, self._rank, 0
        self.is_distributed = False  # `learn` need not broadcast; the algorithm goes by `multi_gpu`
        ranks = {"global_rank": self._rank, "local_rank": 0, "world_size": self._size}
        self.cfg["multi_gpu"] = ranks if self._size > 1 else None


def _group_ppo(name: str, reduction: Reduction, sample_share: float) -> type:
    """The PPO of this name with the gradients summed by our reduction, weighted by the share of the samples."""
    base: Any = find("learner.runner.algorithm.class_name", name)
    if not (isinstance(base, type) and issubclass(base, PPO)):
        raise UsageError(f"learner.runner.algorithm.class_name: {name} is not rsl_rl's PPO nor a subclass of it")
    if reduction.group.size > 1 and version.installed() < version.SHARES_STATISTICS:
        base = with_shared_statistics(base)

    class GroupPPO(base):  # type: ignore[misc]
        """Replaces what rsl_rl does by NCCL."""

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
    """The default process group of torch, by gloo over the loopback interface, for the time of a `with` block.

    It carries what rsl_rl sends past `reduce_parameters`: the KL and the learning rate of each mini-batch, and the
    moments of the observations that its normalisers take in. A group of one needs none.

    Args:
        group: Its ranks.
        store: A path on this host where the ranks meet, the same for all and unused before.
        hang_s: Seconds that an operation may take.

    Raises:
        PeerDiedError: when another rank goes within an operation.
        PeerSilentError: when it lives and has not come within `hang_s`.
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
            raise PeerSilentError(f"a GMI of the group has not come within {hang_s} s (hang_s): {error}") from error
        raise PeerDiedError(f"a GMI of the group has gone: {error}") from error
    finally:
        if is_connected:
            distributed.destroy_process_group()
