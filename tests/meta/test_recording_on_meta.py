"""How an agent's rollout leaves its GPU, where nothing computes: all copies are begun before the host waits for any."""

from types import SimpleNamespace

import pytest
import torch
from operation_counts import META, Counts, meta_device

from gmi_drl.comm.channels import ChannelSizes
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import NUM_FACTS, RolloutForm
from gmi_drl.roles.decoupled.rollout_writer import make_rollout_writer
from gmi_drl.workload.spaces import continuous, vector

FORM = RolloutForm(horizon=3, num_env=2, observation=vector(4), action=continuous(2), num_terms=1)
BY_STEP = 5
"""Kinds of which each step tells: observation, action, reward, end, validity."""

WHOLE = len(FORM.kinds) - 1
"""Kinds but for the facts, which are the host's."""


def place_on(device):
    """Room for a rollout, and what was announced of it."""
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    views = {kind.name: torch.zeros(kind.shape, dtype=dtypes[kind.dtype], device=device) for kind in FORM.kinds}
    told = []
    return SimpleNamespace(
        views=views,
        told=told,
        wrote=lambda name, step: told.append((name, step)),
        wrote_whole=told.append,
        commit=lambda: told.append("commit"),
    )


@pytest.mark.parametrize("device", [torch.device("cpu"), META], ids=["to the host", "direct"])
@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_no_copy_is_waited_for_by_itself(device, mode):
    sizes = ChannelSizes(FORM, 1, (0,), (1,), Channels(mode=mode), parameter_bytes=64)
    with meta_device() as watch:
        recording, place = make_rollout_writer(sizes, META), place_on(device)
        recording.begin(place)
        steps = []
        for t in range(FORM.horizon):
            with watch.count() as told:
                recording.after_step(t)
            steps.append(copies_of(told, device))
        with watch.count() as told:
            recording.end(torch.zeros(NUM_FACTS, dtype=torch.float64))
        assert told.waits == told.allocations == 0
    each = BY_STEP if mode == "UCC" else 0
    assert steps == [each] * FORM.horizon
    assert copies_of(told, device) == WHOLE - each
    assert (told.to_device == 1) is (device is META), "the facts"
    assert len(place.told) == each * FORM.horizon + WHOLE - each + 2 and place.told[-1] == "commit"


def copies_of(told: Counts, device: torch.device) -> int:
    """Of what was on the GPU: within it each is a kernel, as `meta` has it."""
    return told.launches if device is META else told.to_host
