"""The speed of dedicated GMIs as predicted by the paper's model from the measured times of colocated ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gmi_drl.benchmarks.case import Sample, Side, Sides
from gmi_drl.templates.paper_model import Solution, Terms, tcg, tcg_ex, tdg, tdg_ex, throughput

COPIES = 2
"""Copies of a message between GMIs on cores: into shared memory, and out of it."""

FLOAT_BYTES = 4
MEMORY_BYTES = 2**28


@dataclass(frozen=True)
class Model:
    """The model of Tables 4 and 5 for two cores; each role needs a whole core while it works.

    Args:
        num_obs: Observations of one environment.
        num_actions: Actions of one environment.
        total: Environments of every side.
        m: Steps of each environment in an iteration, to which the times refer.
        bandwidth: BW of messages, in bytes per second.
        M_p: Bytes of the parameters; None if nothing is learnt (Table 4).
        sums: Reductions of gradients in an iteration.
    """

    num_obs: int
    num_actions: int
    total: int
    m: int
    bandwidth: float
    M_p: int | None = None
    sums: int = 0

    def predict(self, together: Sample, simulators: int) -> dict[str, float]:
        """Predict the steps per second of a side by the paper's equation, and with cores that GMIs hold all the time.

        The paper's R of dedicated GMIs is a mean over time: a role's share counts only while it works, as if others
        could use it meanwhile. But GMIs hold their cores all the time. So the second prediction (`held`) has the same
        times and COM / BW, but rounds of all environments one after another: the simulators work in parallel, and
        agent and trainer on one core.

        Args:
            together: A sample of the colocated side, with `sim_s`, `act_s` and `learn_s` of one of its two GMIs.
            simulators: Simulators of the predicted side; 0 for the colocated one.
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


def with_predictions(sides: Sides, simulators: Mapping[str, int], model: Model) -> Sides:
    """The sides, with each sample's prediction from the first side's newest sample, and its errors, in the details."""
    together: list[Sample] = []

    def measured(name: str, side: Side) -> Sample:
        sample = side()
        if not simulators[name]:
            together[:] = [sample]
        predicted = model.predict(together[0], simulators[name])
        errors = {f"{way.split('_')[0]}_error": speed / sample.value - 1 for way, speed in predicted.items()}
        return Sample(sample.value, {**sample.details, **predicted, **errors})

    return {name: partial(measured, name, side) for name, side in sides.items()}


def message_bandwidth() -> float:
    """Bytes per second of messages between cores: the speed of a large copy, divided by `COPIES`."""
    import time

    import torch

    source, target = (torch.ones(MEMORY_BYTES // FLOAT_BYTES) for _ in range(2))
    target.copy_(source)
    began = time.perf_counter()
    target.copy_(source)
    return MEMORY_BYTES / (time.perf_counter() - began) / COPIES
