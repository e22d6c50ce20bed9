"""The paper's cost model with its symbols: equations 1 to 3, Tables 4 and 5 (arXiv 2206.08482, section 5.1).

How open points of the paper are read here. With these its numbers are reproduced (`tests/templates/test_paper_model.py`
has 0.163 and 2.58x for TCG over TDG, 0.466 and 5.46x for TCG_EX over TDG_EX):

- An **iteration** is m steps of the environments of a GMI; T_s, T_a and T_t are the seconds that it simulates, acts and
  trains in all of them. Table 4 is of one step, so it is read with m = 1, or with m times what it moves.
- **S, A and W** are "a single" state, action and reward: bytes of one environment, here times `num_env`. 2 S + A + W
  is what a step moves between simulator and agent: a state, the action for it, then the next state and the reward.
- **alpha and beta** scale R_a and R_t down where several simulators share an agent or a trainer: 1 / simulators of
  each. The paper's "around 0.2" and "around 0.3" are what its times allow: T_a / T_s = 1/6 and T_t / T_s = 1/3.
- **R** of TDG and TDG_EX is a mean over time: a role's share counts only while it works. Dedicated GMIs hold theirs
  all the time, R_s + alpha R_a, so the model favours them.
- **COM/BW** is 2 (T_s + T_a) of TDG and 7 (T_s + T_a + T_t) of TDG_EX "based on profiling", and 0 of TCG and of TCG_EX:
  the 5.46x is 8 / 1.466, so the gradients of TCG_EX (Table 5) are assumed to cost nothing.
- **TDG_EX** in the text gathers experience from GMIs with a simulator *and* an agent. Then a step moves nothing, as in
  its COM, although its R has a share for each role.
"""

from dataclasses import dataclass
from typing import Literal

Resource = Literal["SM", "Memory"]


@dataclass(frozen=True)
class Terms:
    """Table 3, in numbers.

    Args:
        T_s: Seconds of simulating in one iteration of a GMI.
        T_a: Seconds of acting.
        T_t: Seconds of training; 0 if nothing is learnt.
        R_s: Size of the dominant resource of a simulator, in the unit of `R_all`.
        R_a: The same of an agent.
        R_t: The same of a trainer.
        alpha: Agents for each simulator, 1 at most.
        beta: Trainers for each simulator, 1 at most.
        S: Bytes of an observation of one environment.
        A: Bytes of an action.
        W: Bytes of a reward.
        BW: Bytes per second between GMIs.
        R_all: All of the dominant resource: the number of devices, if sizes are shares of a device.
        num_env: Environments of a GMI.
        m: Steps of each environment in an iteration.
        M_p: Bytes of the policy's parameters.
        n: GMIs in all.
        sums: Reductions of gradients in an iteration; the paper has 1, PPO one for each mini-batch.
    """

    T_s: float
    T_a: float
    T_t: float
    R_s: float
    R_a: float
    R_t: float
    alpha: float
    beta: float
    S: int
    A: int
    W: int
    BW: float
    R_all: float = 1.0
    num_env: int = 1
    m: int = 1
    M_p: int = 0
    n: int = 1
    sums: int = 1


@dataclass(frozen=True)
class Solution:
    """A row of Table 4 or 5, in numbers.

    Args:
        name: The name in the tables.
        resource: R, in the unit of `R_all`.
        iteration_s: T_s + T_a (+ T_t).
        moved_bytes: COM of a GMI in one iteration.
        steps_per_second: Equation 2 or 3, of all GMIs.
    """

    name: str
    resource: float
    iteration_s: float
    moved_bytes: float
    steps_per_second: float


def dominant(sm_part: float, memory_part: float) -> Resource:
    """Equation 1: the resource that decides how many GMIs fit.

    Args:
        sm_part: R_SM / R_SMperGPU, the part of a device's SMs (or cores) that one process needs.
        memory_part: R_Mem / R_MemPerGPU, the part of its memory.
    """
    return "SM" if sm_part >= memory_part else "Memory"


def throughput(num_gmis: float, steps: float, iteration_s: float, communication_s: float) -> float:
    """Throughput by equations 2 and 3, in steps per second.

    Args:
        num_gmis: R_all / R.
        steps: Steps of all environments of one GMI in an iteration; 1 gives the paper's TOP, in iterations.
        iteration_s: T_s + T_a, and T_t if something is learnt.
        communication_s: COM / BW.
    """
    return num_gmis * steps / (iteration_s + communication_s)


def reduction_bytes(M_p: float, n: int, sums: int = 1) -> float:
    """Table 5: bytes that each of n GMIs moves to sum M_p bytes of gradients `sums` times in an iteration."""
    return sums * 2 * (n - 1) * M_p / n


def shared(role_s: float, simulate_s: float) -> float:
    """Alpha of an agent or beta of a trainer: 1 / number of simulators that can share it without waiting.

    Args:
        role_s: T_a or T_t.
        simulate_s: T_s.
    """
    return 1 / max(1, int(simulate_s / role_s + 1e-9)) if role_s else 0.0


def tdg(terms: Terms) -> Solution:
    """Table 4: simulators and agents on separate GMIs."""
    seconds = terms.T_s + terms.T_a
    held = terms.T_s * terms.R_s + terms.T_a * terms.alpha * terms.R_a
    return _solution("TDG", terms, held / seconds, seconds, _steps(terms) * (2 * terms.S + terms.A + terms.W))


def tcg(terms: Terms) -> Solution:
    """Table 4: a simulator and an agent share each GMI, whose size is the larger of theirs."""
    return _solution("TCG", terms, max(terms.R_s, terms.R_a), terms.T_s + terms.T_a, 0)


def tdg_ex(terms: Terms) -> Solution:
    """Table 5: trainers on separate GMIs receive experience and send parameters back."""
    seconds = terms.T_s + terms.T_a + terms.T_t
    held = terms.T_s * terms.R_s + terms.T_a * terms.alpha * terms.R_a + terms.T_t * terms.beta * terms.R_t
    experience = _steps(terms) * (terms.S + terms.A + terms.W) + terms.M_p
    return _solution("TDG_EX", terms, held / seconds, seconds, experience + _gradients(terms))


def tcg_ex(terms: Terms) -> Solution:
    """Table 5: all three roles share each GMI, and gradients alone cross its border."""
    seconds = terms.T_s + terms.T_a + terms.T_t
    return _solution("TCG_EX", terms, max(terms.R_s, terms.R_a, terms.R_t), seconds, _gradients(terms))


def penalty(colocated: Solution, dedicated: Solution) -> float:
    """The extra resources of sharing a GMI: the ratio of both R, less 1 (the paper's 0.16 and 0.5)."""
    return colocated.resource / dedicated.resource - 1


def gain(colocated: Solution, dedicated: Solution) -> float:
    """The speed-up of sharing a GMI."""
    return colocated.steps_per_second / dedicated.steps_per_second


def even_bandwidth(colocated: Solution, dedicated: Solution) -> float | None:
    """The BW in bytes per second at which both are equally fast. Sharing a GMI wins below it, and loses above.

    None if the same one wins at every BW: its R (T + COM/BW) is the smaller with COM and without.
    """
    moved = dedicated.resource * dedicated.moved_bytes - colocated.resource * colocated.moved_bytes
    held = colocated.resource * colocated.iteration_s - dedicated.resource * dedicated.iteration_s
    return moved / held if moved > 0 and held > 0 else None


def _solution(name: str, terms: Terms, resource: float, iteration_s: float, moved_bytes: float) -> Solution:
    speed = throughput(terms.R_all / resource, _steps(terms), iteration_s, moved_bytes / terms.BW)
    return Solution(name, resource, iteration_s, moved_bytes, speed)


def _steps(terms: Terms) -> int:
    return terms.m * terms.num_env


def _gradients(terms: Terms) -> float:
    return reduction_bytes(terms.M_p, terms.n, terms.sums)
