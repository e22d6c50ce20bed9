"""The terms of the paper's cost model (Table 3) from what was measured: a profile, speeds, and the sizes of a task."""

from collections.abc import Mapping
from dataclasses import dataclass

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.config.learners.base import FLOAT_BYTES
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import MEMORY, OF_CORES
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import Phases, Profile, ProfilePoint
from gmi_drl.templates import devices_of
from gmi_drl.templates.paper_model import Resource, Terms, dominant, shared
from gmi_drl.units import GIB
from gmi_drl.workload import TaskSpec

KEPT = 0.95
"""Part of the rate of a process that has its device alone which its R_SM must keep."""

Shares = Mapping[float, ProfilePoint]
"""What one GMI did with each share of its device, and as many environments: 1 is all of it."""


@dataclass(frozen=True)
class Needs:
    """What was measured of the resources of one process with so many environments, as parts of a device.

    Args:
        alone: The process that had its device alone.
        compute: R_SM / R_SMperGPU; None where fewer than two shares were measured.
        memory: R_Mem / R_MemPerGPU; None where its peak or the device's memory is not known.
        shares: That were measured.
    """

    alone: ProfilePoint
    compute: float | None
    memory: float | None
    shares: Shares

    @property
    def resource(self) -> Resource | None:
        """Equation 1; None where one of the two is not known."""
        return None if self.compute is None or self.memory is None else dominant(self.compute, self.memory)


@dataclass(frozen=True)
class Known:
    """What the paper's model can be given.

    Args:
        needs: By which equation 1 goes; None where nothing of one GMI per device is known.
        terms: Table 3; None where something of it was not measured.
        lacking: What that is, in a sentence; empty where nothing is.
        speeds_measured: Whether BW was measured; else it is the usual one between cores.
    """

    needs: Needs | None
    terms: Terms | None
    lacking: str
    speeds_measured: bool


def known_terms(profile: Profile, cut: Cut, node: Node, task: TaskSpec, learner: LearnerConfig, sums: int) -> Known:
    """Table 3 for GMIs with the environments of a cut.

    T is that of one GMI per device. R_s, R_a and R_t are the smallest measured shares of a device with which a GMI
    keeps `KEPT` of that rate of simulating, acting, training. BW is that of host memory, which the paper's GMIs go
    through. M_p is the bucket of the learner, m its horizon, n the GMIs of the cut.

    Args:
        profile: With one point of each cut.
        cut: Whose environments, and n.
        node: Its devices are R_all.
        task: S and A are its observations and actions, W is one number: float32.
        learner: What trains; of serving the horizon counts alone.
        sums: Reductions in an iteration; 0 where nothing is learnt.
    """
    speeds = (profile.speeds or {}).get(cut.backend, {})
    measured = MEMORY in speeds
    num_devices, _ = devices_of(node)
    needs = needs_of(profile, cut, node)
    lacking = _lacking(needs, cut, node)
    if needs is None or lacking:
        return Known(needs, None, lacking, measured)
    times = needs.alone.phases
    assert times is not None  # or it would be lacking
    terms = Terms(
        T_s=times.sim_s,
        T_a=times.act_s,
        T_t=times.learn_s,
        R_s=_smallest({share: _phases(point).sim_s for share, point in needs.shares.items()}),
        R_a=_smallest({share: _phases(point).act_s for share, point in needs.shares.items()}),
        R_t=_smallest({share: _phases(point).learn_s for share, point in needs.shares.items()}),
        alpha=shared(times.act_s, times.sim_s),
        beta=shared(times.learn_s, times.sim_s),
        S=FLOAT_BYTES * task.num_obs,
        A=FLOAT_BYTES * task.num_actions,
        W=FLOAT_BYTES,
        BW=(speeds if measured else OF_CORES)[MEMORY].bytes_per_second,
        R_all=num_devices,
        num_env=cut.num_env,
        m=learner.horizon,
        M_p=learner.bucket_bytes(task) if sums else 0,
        n=num_devices * cut.gmis_per_gpu,
        sums=sums,
    )
    return Known(needs, terms, "", measured)


def needs_of(profile: Profile, cut: Cut, node: Node) -> Needs | None:
    """What a process with the environments of a cut needs of a device; None where none was measured alone."""
    own = [one for one in profile.points if one.runnable and one.num_env == cut.num_env and one.steps_per_second]
    alone = next((one for one in own if one.gmis_per_gpu == 1), None)
    if alone is None:
        return None
    others = (one for one in own if one.backend == cut.backend and one.gmis_per_gpu > 1)
    shares = {1.0: alone} | {1 / one.gmis_per_gpu: one for one in others if _is_held_to_its_share(one, node)}
    compute = _smallest({share: 1 / one.steps_per_second for share, one in shares.items()}) if len(shares) > 1 else None
    size = _memory_of_a_device(node)
    return Needs(alone, compute, alone.memory_bytes / size if alone.memory_bytes and size else None, shares)


def _can_hold_to_shares(backend: str, node: Node) -> bool:
    """Whether a GMI of so many can be held to its part of a device: of cores always."""
    return not node.num_gpus or bool(BACKENDS.find(backend).enforces & {"share", "mig_profile"})


def _is_held_to_its_share(point: ProfilePoint, node: Node) -> bool:
    """Whether a GMI that was measured could use no more than its part: on a GPU by a cap, or by hardware."""
    return not node.num_gpus or point.capped or "mig_profile" in BACKENDS.find(point.backend).enforces


def _memory_of_a_device(node: Node) -> float | None:
    """In bytes; devices of cores share that of the host."""
    size = node.gpu_memory_gib if node.num_gpus else node.cpu.memory_gib / devices_of(node)[0]
    return None if size is None else size * GIB


def _lacking(needs: Needs | None, cut: Cut, node: Node) -> str:
    """Why Table 3 cannot be filled in, in a sentence; empty if it can."""
    if needs is None:
        return f"one GMI per device with {cut.num_env} environments was not measured"
    if not _can_hold_to_shares(cut.backend, node):
        return f"{cut.backend} holds no GMI to a share of its GPU, so nothing says what share a role needs"
    if needs.compute is None:
        return (
            f"{cut.num_env} environments were measured on whole devices only, so nothing says what a smaller share does"
        )
    if any(point.phases is None or not point.phases.sim_s for point in needs.shares.values()):
        return "the profile does not have the phases of its points"
    if needs.memory is None:
        return "the memory of a GMI or of a device is not known"
    if needs.resource == "Memory":
        return "memory is the dominant resource, and how much of it each role takes was not measured"
    return ""


def _smallest(seconds: Mapping[float, float]) -> float:
    """The smallest share that keeps `KEPT` of the rate of a whole device, by the seconds that each takes."""
    return min(share for share, each in seconds.items() if seconds[1.0] >= KEPT * each)


def _phases(point: ProfilePoint) -> Phases:
    assert point.phases is not None
    return point.phases
