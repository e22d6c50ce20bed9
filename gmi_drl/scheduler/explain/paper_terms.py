"""Computes the terms of the paper's cost model (Table 3) from a profile, speeds, and the sizes of a task."""

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
"""Part of the rate of a process with a whole device that R_SM must keep."""

Shares = Mapping[float, ProfilePoint]
"""The point of one GMI, with the same environments, by its share of a device; 1 is a whole device."""


@dataclass(frozen=True)
class Needs:
    """The resources that one process needs, as parts of a device.

    Args:
        alone: The point of the process with a whole device.
        compute: R_SM / R_SMperGPU; None if fewer than two shares were measured.
        memory: R_Mem / R_MemPerGPU; None if its peak or the device's memory is not known.
        shares: The points of all measured shares.
    """

    alone: ProfilePoint
    compute: float | None
    memory: float | None
    shares: Shares

    @property
    def resource(self) -> Resource | None:
        """Equation 1; None if one of the two is not known."""
        return None if self.compute is None or self.memory is None else dominant(self.compute, self.memory)


@dataclass(frozen=True)
class Known:
    """The inputs of the paper's model, as far as they are known.

    Args:
        needs: The inputs of equation 1; None if one GMI per device was not measured.
        terms: Table 3; None if one of its terms was not measured.
        lacking: Which term is missing, in a sentence; empty if none.
        speeds_measured: Whether BW was measured. Else it is the usual one between cores.
    """

    needs: Needs | None
    terms: Terms | None
    lacking: str
    speeds_measured: bool


def known_terms(profile: Profile, cut: Cut, node: Node, task: TaskSpec, learner: LearnerConfig, sums: int) -> Known:
    """Table 3 for GMIs with the environments of a cut.

    The times T are those of one GMI per device. R_s, R_a and R_t are the smallest measured shares of a device with
    which a GMI keeps `KEPT` of that rate of simulating, acting and training. BW is that of host memory, as in the
    paper. M_p is the bucket of the learner, m its horizon, n the GMIs of the cut.

    Args:
        profile: A profile with one point of each cut.
        cut: The cut, which gives the environments and n.
        node: The machine; its devices are R_all.
        task: Gives S and A, its observations and actions in float32; W is one number.
        learner: The learner; in serving only its horizon counts.
        sums: Reductions in an iteration; 0 if nothing is learnt.
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
        S=task.observation.nbytes,
        A=task.action.nbytes,
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
    """The resources that a process with the environments of a cut needs; None if it was not measured alone."""
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
    """Whether the backend can hold a GMI to its part of a device. On cores every backend can."""
    return not node.num_gpus or bool(BACKENDS.find(backend).enforces & {"share", "mig_profile"})


def _is_held_to_its_share(point: ProfilePoint, node: Node) -> bool:
    """Whether a measured GMI was held to its part of a device: on a GPU by a cap, or by hardware."""
    return not node.num_gpus or point.capped or "mig_profile" in BACKENDS.find(point.backend).enforces


def _memory_of_a_device(node: Node) -> float | None:
    """Bytes of a device; devices of cores share the host's memory. None if not known."""
    size = node.gpu_memory_gib if node.num_gpus else node.cpu.memory_gib / devices_of(node)[0]
    return None if size is None else size * GIB


def _lacking(needs: Needs | None, cut: Cut, node: Node) -> str:
    """The sentence that says why Table 3 cannot be filled in; empty if it can."""
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
    """The smallest share with at least `KEPT` of the rate of a whole device, from the seconds that each takes."""
    return min(share for share, each in seconds.items() if seconds[1.0] >= KEPT * each)


def _phases(point: ProfilePoint) -> Phases:
    assert point.phases is not None
    return point.phases
