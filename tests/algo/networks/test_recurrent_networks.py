from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.networks.memory import Memory, Past
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.network_sizes import NetworkSettings
from gmi_drl.workload.spaces import Observation, Part, categorical, image, vector

L, B, WIDTH, H = 7, 5, 6, 9
KINDS = ["gru", "lstm"]
CAMERA, JOINTS = Part("camera", (2, 12, 12), "image"), Part("joints", (6,))


def make_memory(kind):
    torch.manual_seed(0)
    memory = Memory(WIDTH, NetworkSettings((), memory=kind, memory_size=H))
    for bias in (memory.input.bias, memory.recurrent.bias):
        torch.nn.init.normal_(bias)
    return memory


def torchs_cell(memory, kind):
    """torch's own cell with the same weights; its gates of an LSTM have another order."""
    cell = (torch.nn.GRUCell if kind == "gru" else torch.nn.LSTMCell)(WIDTH, H)
    order = [0, 1, 2] if kind == "gru" else [0, 1, 3, 2]

    def ordered(rows):
        gates = rows.chunk(len(order))
        return torch.cat([gates[i] for i in order])

    theirs = (cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh)
    with torch.no_grad():
        for their, our in zip(theirs, (*memory.input.parameters(), *memory.recurrent.parameters()), strict=True):
            their.copy_(ordered(our))
    return cell


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_torchs_cell(kind):
    memory = make_memory(kind)
    cell, x, state = torchs_cell(memory, kind), torch.randn(B, WIDTH), torch.randn(B, memory.state_size)
    output, after = memory(x, Past(state))
    if kind == "gru":
        torch.testing.assert_close(after, cell(x, state))
    else:
        torch.testing.assert_close(after, torch.cat(cell(x, state.chunk(2, -1)), -1))
    torch.testing.assert_close(output, after[:, :H])


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_with_ends_are_each_episode_by_itself(kind):
    memory, x = make_memory(kind), torch.randn(L, B, WIDTH)
    done, state = (torch.rand(L, B) < 0.3).float(), torch.randn(B, memory.state_size)
    assert 3 < done.sum() < L * B
    outputs, after = memory(x.flatten(0, 1), Past(state, done.flatten()))
    outputs = outputs.view(L, B, H)
    for env in range(B):
        now = state[env : env + 1]
        for begin, end in episodes(done[:, env]):
            for t in range(begin, end):
                output, now = memory(x[t, env : env + 1], Past(now))
                torch.testing.assert_close(outputs[t, env], output[0])
            now = now * 0 if done[end - 1, env] else now
        torch.testing.assert_close(after[env], now[0])


def episodes(done):
    ends = [t + 1 for t in range(L) if done[t] or t == L - 1]
    return zip([0, *ends[:-1]], ends, strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "observation", [vector(6), image(2, 12, 12), Observation((JOINTS, CAMERA))], ids=["vector", "image", "both"]
)
def test_a_policys_steps_one_by_one_are_its_sequence(kind, observation):
    settings = NetworkSettings((8,), memory=kind, memory_size=H, features=16)
    spec = replace(TASK_SPECS["ant"], observation=observation, action=categorical(4))
    policy = ActorCritic(spec, settings)
    obs = torch.randint(0, 255, (L * B, *observation.shape)).to(torch.uint8)
    if observation.is_packed:
        obs[:, observation.slices["joints"]] = 0
    obs = torch.randn(L * B, 6) if observation.is_vector else obs
    done, state = (torch.rand(L * B) < 0.3).float(), torch.randn(B, policy.state_size)
    at_once = policy.remember(obs, Past(state, done))
    for t in range(L):
        rows = slice(t * B, (t + 1) * B)
        step = policy.remember(obs[rows], Past(state))
        torch.testing.assert_close(at_once.params[rows], step.params, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(at_once.value[rows], step.value, rtol=1e-4, atol=1e-5)
        state = step.state * (1 - done[rows, None])
    torch.testing.assert_close(at_once.state, state, rtol=1e-4, atol=1e-5)
    assert policy.state_size == settings.state_size(observation) and not policy.is_plain
