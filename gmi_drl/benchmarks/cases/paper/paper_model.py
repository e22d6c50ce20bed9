"""What the paper's model foretells of dedicated GMIs, by the times that colocated ones were measured to take."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gmi_drl.benchmarks.case import Sample, Side, Sides
from gmi_drl.templates.paper_model import Solution, Terms, tcg, tcg_ex, tdg, tdg_ex, throughput

COPIES = 2
"""Of a message between GMIs of cores: into shared memory, and out of it."""

FLOAT_BYTES = 4
MEMORY_BYTES = 2**28


@dataclass(frozen=True)
class Model:
    """Tables 4 and 5 for two cores, of which each role needs a whole one while it works.

    Args:
        num_obs: Of one environment.
        num_actions: Of one environment.
        total: Environments of every side.
        m: Steps of each in what the times are of.
        bandwidth: BW of messages, in bytes per second.
        M_p: Bytes of the parameters; None where nothing is learnt (Table 4).
        sums: Reductions of gradients in an iteration.
    """

    num_obs: int
    num_actions: int
    total: int
    m: int
    bandwidth: float
    M_p: int | None = None
    sums: int = 0

    def foretell(self, together: Sample, simulators: int) -> dict[str, float]:
        """Steps per second of a side, as the paper's equation says and as its layout holds its cores.

        The paper's R of dedicated GMIs is a mean over time: a role's share counts only while it works, so that others
        could have it meanwhile. GMIs hold theirs all the time: `held` has the same times and COM / BW, but one round of
        all environments after the other, in which simulators work side by side, and agent and trainer on one core.

        Args:
            together: Of the colocated side, with `sim_s`, `act_s` and `learn_s` of one of its two GMIs.
            simulators: Of the side that is foretold; 0 of the colocated one.
        """
        terms = self._terms(together)
        dedicated, colocated = (tdg, tcg) if self.M_p is None else (tdg_ex, tcg_ex)
        if not simulators:
            speed = colocated(terms).steps_per_second
            return {"paper_foretells": speed, "held_foretells": speed}
        shared = replace(terms, alpha=1 / simulators, beta=1 / simulators)
        held = self._held(terms, dedicated(replace(terms, num_env=self.total, n=1)), simulators)
        return {"paper_foretells": dedicated(shared).steps_per_second, "held_foretells": held}

    def _terms(self, together: Sample) -> Terms:
        seconds = together.details
        return Terms(
            T_s=seconds["sim_s"],
            T_a=seconds["act_s"],
            T_t=seconds["learn_s"] if self.M_p is not None else 0.0,
            R_s=1.0,
            R_a=1.0,
            R_t=1.0,
            alpha=1.0,
            beta=1.0,
            S=FLOAT_BYTES * self.num_obs,
            A=FLOAT_BYTES * self.num_actions,
            W=FLOAT_BYTES,
            BW=self.bandwidth,
            R_all=2.0,
            num_env=self.total // 2,
            m=self.m,
            M_p=self.M_p or 0,
            n=2,
            sums=self.sums,
        )

    def _held(self, terms: Terms, whole: Solution, simulators: int) -> float:
        rounds = self.total / terms.num_env
        iteration_s = rounds * (terms.T_s / simulators + terms.T_a + terms.T_t)
        return throughput(1, self.m * self.total, iteration_s, whole.moved_bytes / terms.BW)


def beside(sides: Sides, simulators: Mapping[str, int], model: Model) -> Sides:
    """The same sides, each sample with what is foretold of it by the newest of the first, and the errors."""
    together: list[Sample] = []

    def measured(name: str, side: Side) -> Sample:
        sample = side()
        if not simulators[name]:
            together[:] = [sample]
        told = model.foretell(together[0], simulators[name])
        errors = {f"{way.split('_')[0]}_error": speed / sample.value - 1 for way, speed in told.items()}
        return Sample(sample.value, {**sample.details, **told, **errors})

    return {name: partial(measured, name, side) for name, side in sides.items()}


def message_bandwidth() -> float:
    """Bytes per second of messages between cores: those of a large copy, over `COPIES`."""
    import time

    import torch

    source, target = (torch.ones(MEMORY_BYTES // FLOAT_BYTES) for _ in range(2))
    target.copy_(source)
    began = time.perf_counter()
    target.copy_(source)
    return MEMORY_BYTES / (time.perf_counter() - began) / COPIES
