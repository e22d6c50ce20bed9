"""Rollouts in which every number encodes its agent, rollout, kind and step, for tests of the channels."""

import torch
from hypothesis import strategies as st

from gmi_drl.comm.channels import ChannelSizes, packed_bytes
from gmi_drl.comm.memory.leases import ROLLOUTS_OF_ONE
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

FORM = RolloutForm(horizon=3, num_env=2, observation=vector(5), action=continuous(2), num_terms=1)
KINDS = {kind.name: number for number, kind in enumerate(FORM.kinds)}
STEPWISE = [kind.name for kind in FORM.kinds if kind.is_stepwise]
WHOLE = [kind.name for kind in FORM.kinds if not kind.is_stepwise]
RECORDS = {"MCC": len(KINDS), "UCC": FORM.horizon * len(STEPWISE) + len(WHOLE)}
"""Of a rollout, where it is less than a transfer."""


def parameters(version=0):
    """Float32 and float64 together, all of one version."""
    return [torch.full((7,), float(version)), torch.full((2, 3), float(version), dtype=torch.float64)]


def sizes_of(rollouts=1, agents=(1,), trainers=(0,), form=FORM, direct=(), **channels):
    """Sizes with these parameters."""
    return ChannelSizes(form, rollouts, agents, trainers, Channels(**channels), packed_bytes(parameters()), direct)


@st.composite
def some_sizes(draw, most_agents=3, most_trainers=3, most_lag=2):
    """Of a few trainers, and agents whose ids come after theirs."""
    agents, trainers = draw(st.integers(1, most_agents)), draw(st.integers(1, most_trainers))
    return sizes_of(
        rollouts=draw(st.integers(1, 3)),
        agents=tuple(range(trainers, trainers + agents)),
        trainers=tuple(range(trainers)),
        mode=draw(st.sampled_from(["MCC", "UCC"])),
        max_lag=draw(st.integers(0, most_lag)),
        transfer_bytes=draw(st.sampled_from([1, 80, 2**20])),
    )


def number(gmi, rollout, kind, step):
    """The value of all numbers of a step, exact in float32 for four processes of an agent, 4000 rollouts each."""
    process, nth = divmod(rollout, ROLLOUTS_OF_ONE)
    return (((gmi * 4 + process) * 4000 + nth % 4000) * 20 + KINDS[kind]) * 10 + step


def pieces():
    """The steps of a rollout, in the order of acting: kind and step."""
    return [(name, step) for step in range(FORM.horizon) for name in STEPWISE] + [(name, 0) for name in WHOLE]


def write(place, gmi, kind, step, version=0):
    """Write a step into the place and announce it; facts are the version that acted."""
    view = place.views[kind]
    value = version if kind == "facts" else number(gmi, place.rollout, kind, step)
    (view[step] if kind in STEPWISE else view).fill_(value)
    place.wrote(kind, step)


def send(place, gmi, version=0):
    """Write a whole rollout."""
    for kind, step in pieces():
        write(place, gmi, kind, step, version)
    place.commit()


def rollouts_in(batch):
    """The agent and the rollout's number of each place of a batch, once every number in it is checked."""
    came = []
    for row, gmi in enumerate(batch.agents):
        first = int(batch.views["obs"][row].flatten()[0])
        process, nth = divmod(first // 200 - gmi * 16_000, 4000)
        rollout = process * ROLLOUTS_OF_ONE + nth
        for kind, step in pieces():
            view = batch.views[kind][row]
            part = view[step] if kind in STEPWISE else view
            if kind != "facts":
                assert part.eq(number(gmi, rollout, kind, step)).all(), (gmi, rollout, kind, step)
        came.append((gmi, rollout))
    return came


def versions_in(batch):
    """The versions that acted, for each place of a batch."""
    return batch.views["facts"][:, 0].int().tolist()
