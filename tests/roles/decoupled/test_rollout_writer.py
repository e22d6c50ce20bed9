"""What an agent plays lies in the place that it has leased, whichever way it got there."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import NUM_FACTS, RolloutForm
from gmi_drl.roles.decoupled.rollout_writer import InPlaceWriter, StepWriter, WholeWriter, make_rollout_writer
from gmi_drl.workload.spaces import categorical, continuous, image, vector

FORM = RolloutForm(horizon=3, num_env=2, observation=vector(4), action=continuous(2), num_terms=1)
IMAGES = replace(FORM, observation=image(2, 3, 3), action=categorical(5))
CPU = torch.device("cpu")


@pytest.fixture(params=[("MCC", FORM), ("UCC", FORM), ("MCC", IMAGES), ("UCC", IMAGES)], ids=lambda of: of[0])
def ends(request):
    parameters, (mode, form) = [torch.zeros(3)], request.param
    sizes = ChannelSizes(form, 1, (0,), (1,), Channels(mode=mode), packed_bytes(parameters))
    assert ChannelSizes.from_text(sizes.text) == sizes
    mailboxes, memory = create_mailboxes(range(2)), create_memory()
    trainer = join_as_trainer(memory, mailboxes, 1, sizes, 5.0)
    agent = join_as_agent(memory, mailboxes, 0, sizes, 5.0)
    trainer.parameters.publish(0, parameters)
    yield SimpleNamespace(agent=agent, trainer=trainer, sizes=sizes)
    agent.close()
    trainer.close()
    mailboxes.close()
    os.close(memory)


def play(recording):
    """Fill the rollout as an actor and its judge do; copies of what was written."""
    rollout, told = recording.rollout, {}
    for t in range(FORM.horizon):
        for name in ("obs", "action", "reward", "done", "valid"):
            getattr(rollout, name)[t] = random_like(getattr(rollout, name)[t])
        recording.after_step(t)
    for name in ("log_prob", "bootstrap", "last_obs", "delta", "sums"):
        getattr(rollout, name).copy_(random_like(getattr(rollout, name)))
    for kind in FORM.kinds:
        if kind.name != "facts":
            told[kind.name] = getattr(rollout, kind.name).clone()
    return told


def random_like(tensor):
    return torch.randint_like(tensor, 256) if tensor.dtype == torch.uint8 else torch.randn_like(tensor)


@pytest.mark.parametrize("kind", [InPlaceWriter, StepWriter, WholeWriter])
def test_a_trainer_gets_what_was_played(ends, kind):
    recording = kind(ends.sizes, CPU)
    for _ in range(2):
        recording.begin(ends.agent.lease())
        told = play(recording)
        facts = torch.rand(NUM_FACTS, dtype=torch.float64)
        recording.end(facts)
        batch = ends.trainer.take()
        for name, tensor in {**told, "facts": facts}.items():
            assert torch.equal(batch.views[name][0], tensor), name
        ends.trainer.parameters.publish(batch.number + 1, [torch.zeros(3)])
        ends.trainer.give_back()


def test_on_a_cpu_nothing_is_copied(ends):
    recording = make_rollout_writer(ends.sizes, CPU)
    place = ends.agent.lease()
    recording.begin(place)
    for name in ("obs", "action", "reward", "log_prob", "bootstrap", "last_obs", "delta", "sums"):
        assert getattr(recording.rollout, name).data_ptr() == place.views[name].data_ptr()


def test_elsewhere_a_step_is_sent_as_it_is_produced_under_ucc_alone(ends):
    recording = make_rollout_writer(ends.sizes, torch.device("meta"))
    assert type(recording) is {"MCC": WholeWriter, "UCC": StepWriter}[ends.sizes.channels.mode]


def test_copies_are_awaited_together_before_the_commit(ends, monkeypatch):
    recording, ring, told = StepWriter(ends.sizes, CPU), ends.agent._rings[0], []
    monkeypatch.setattr("gmi_drl.roles.decoupled.rollout_writer.await_stream", lambda device: told.append(ring._count))
    place = ends.agent.lease()
    recording.begin(place)
    play(recording)
    recording.end(torch.rand(NUM_FACTS, dtype=torch.float64))
    of_step = 5 if ends.sizes.channels.mode == "UCC" else 0  # under MCC a transfer is a whole rollout
    after_steps = {"UCC": 5 * FORM.horizon, "MCC": 5}[ends.sizes.channels.mode]
    assert told == [of_step * t for t in range(FORM.horizon)] + [after_steps], "once for each step, and at the end"
    assert place.is_committed
