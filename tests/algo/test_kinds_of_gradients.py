"""One update's gradient for every kind of observation and action, against plain autograd in float64."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.a3c import A3C, Samples
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import BATCH, MiniBatch
from gmi_drl.config.learners import A3CConfig, PPOConfig
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.network_sizes import NetworkSettings
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Action, Observation, Part, categorical, continuous, image, vector

B, CPU = 24, torch.device("cpu")
JOINTS, CAMERA, MASK = Part("joints", (5,)), Part("camera", (2, 12, 12), "image"), Part("allowed", (4,), "mask")
SMALL = NetworkSettings((16,), activation="tanh", features=16)
KINDS = {
    "continuous": (vector(6), continuous(3), SMALL),
    "discrete": (vector(6), categorical(4), SMALL),
    "several choices": (vector(6), categorical(2, 3), SMALL),
    "mixed": (vector(6), Action(2, (4,)), SMALL),
    "image": (image(2, 12, 12), categorical(4), replace(SMALL, share=False)),
    "shared trunk": (image(2, 12, 12), categorical(4), SMALL),
    "dict": (Observation((JOINTS, CAMERA)), continuous(2), SMALL),
    "masked": (Observation((JOINTS, MASK)), categorical(4), SMALL),
    "asymmetric": (
        Observation((JOINTS, Part("state", (3,)))),
        continuous(2),
        replace(SMALL, groups={"actor": ("joints",)}),
    ),
    "gru": (vector(6), continuous(3), replace(SMALL, memory="gru", memory_size=8)),
    "lstm": (vector(6), categorical(4), replace(SMALL, memory="lstm", memory_size=8)),
    "gru with one trunk": (image(2, 12, 12), categorical(4), replace(SMALL, memory="gru", memory_size=8)),
}
Q = 4
"""Sequences of a memory, of B / Q steps each."""


def made_up(kind):
    """A policy, and a batch of what it and another policy did, which is as a learner gets it."""
    observation, action, settings = KINDS[kind]
    torch.manual_seed(3)
    policy = ActorCritic(replace(TASK_SPECS["ant"], observation=observation, action=action), settings)
    with torch.no_grad():
        for parameter in policy.actor.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    parts = {}
    for part in observation.parts:
        raw = torch.randn(B, *part.shape) if part.kind == "vector" else torch.randint(0, 256, (B, *part.shape))
        parts[part.name] = (raw % 2).index_fill(1, torch.tensor([1]), 1) if part.kind == "mask" else raw
        parts[part.name] = parts[part.name].to(torch.float32 if part.kind == "vector" else torch.uint8)
    obs = pack(parts, observation)
    memory = {}
    if policy.state_size:
        memory = {"done": (torch.rand(B) < 0.2).float(), "state": torch.randn(Q, policy.state_size)}
    with torch.no_grad():
        params, value = in_turn(policy, {"obs": obs, **memory})
        chosen = policy.distribution.sample(params, policy.log_std, policy.distribution.noise((B,), None, CPU))
        numbers = {
            **memory,
            "obs": obs,
            "action": chosen,
            "log_prob": policy.log_prob(chosen, params) + 0.1 * torch.randn(B),
            "value": value + torch.randn(B),
        }
    valid = torch.ones(B)
    valid[5] = 0
    return policy, numbers | {"params": params, "valid": valid, "returns": torch.randn(B), "advantage": torch.randn(B)}


def in_turn(policy, n):
    """Params and values; with a memory one step after the other, without the masks of sequences."""
    if "state" not in n:
        return policy.params(n["obs"]), policy.value(n["obs"])
    state, steps = n["state"].to(policy.log_std.dtype), []
    for obs, done in zip(n["obs"].split(Q), n["done"].split(Q), strict=True):
        params, value, state = policy.remember(obs, Past(state))
        state = torch.stack([now * 0 if end else now for now, end in zip(state, done, strict=True)])
        steps.append((params, value))
    return tuple(map(torch.cat, zip(*steps, strict=True)))


def losses(policy, n, config, ratio_weight):
    """The loss in float64: `ratio_weight(ratio)` is what the advantage is multiplied by."""
    params, value = in_turn(policy, n)
    log_prob = policy.log_prob(n["action"].double(), params)
    entropy = policy.entropy(params)
    entropy = entropy if not entropy.dim() else (entropy * n["valid"]).mean()
    policy_loss = ratio_weight(log_prob, (log_prob - n["log_prob"].double()).exp())
    target = n["returns"].double()
    value_loss = ((value - target).square() * n["valid"]).mean()
    return policy_loss + config.value_loss_coef * value_loss - config.entropy_coef * entropy


def in_float64(policy, n):
    """A copy of the policy in float64. Its observations stay as they are: layers convert what they get."""
    double = deepcopy(policy).double()

    def convert(module, inputs):
        return tuple(x.double() if x.is_floating_point() else x for x in inputs)

    for layer in double.modules():
        if not list(layer.children()):
            layer.register_forward_pre_hook(convert)
    return double, n


def gradient_of(policy, loss):
    policy.zero_grad()
    loss.backward()
    return torch.cat(
        [torch.zeros(p.numel()) if p.grad is None else _stored(p.grad).float() for p in policy.parameters_in_order()]
    )


def _stored(tensor):
    """As the flat vector stores it."""
    if tensor.dim() == 4:
        return tensor.permute(0, 2, 3, 1).flatten()
    return tensor.t().flatten() if tensor.dim() == 2 else tensor.flatten()


@pytest.mark.parametrize("kind", KINDS)
def test_ppos_gradient(kind):
    policy, n = made_up(kind)
    config = PPOConfig(entropy_coef=0.02, clip_value_loss=False)
    double, _ = in_float64(policy, n)

    def surrogate(log_prob, ratio):
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        return (torch.max(-n["advantage"] * ratio, -n["advantage"] * clipped) * n["valid"]).mean()

    expected = gradient_of(double, losses(double, n, config, surrogate))
    ppo = PPO(policy, config)
    ppo.old_log_std.copy_(policy.log_std)
    ppo._compute_gradient(MiniBatch(**{name: n.get(name) for name in (*BATCH, "done", "state")}))
    torch.testing.assert_close(ppo.flat.gradient, expected, rtol=1e-4, atol=1e-5)
    assert expected.abs().max() > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_a3cs_gradient(kind):
    policy, n = made_up(kind)
    config = A3CConfig(entropy_coef=0.02, clip=None)
    double, _ = in_float64(policy, n)

    def weighed(log_prob, ratio):
        rho = ratio.detach().clamp(max=1.0) * n["valid"]
        return -(log_prob * rho * n["advantage"]).mean()

    expected = gradient_of(double, losses(double, n, config, weighed))
    a3c = A3C(policy, Normaliser(policy.observation, CPU), config)
    samples = {name: n.get(name) for name in ("obs", "action", "log_prob", "valid", "advantage", "done", "state")}
    a3c._compute_gradient(Samples(**samples, target=n["returns"]))
    torch.testing.assert_close(a3c.flat.gradient, expected, rtol=1e-4, atol=1e-5)


def learner_and_batch(algo, policy, n, entropy_coef):
    """A learner with half the samples of its group, and the batch as it gets it."""
    if algo == "ppo":
        learner = PPO(policy, PPOConfig(entropy_coef=entropy_coef), sample_share=0.5)
        learner.old_log_std.fill_(0.1)
        return learner, MiniBatch(**{name: n.get(name) for name in (*BATCH, "done", "state")})
    config = A3CConfig(entropy_coef=entropy_coef)
    learner = A3C(policy, Normaliser(policy.observation, CPU), config, sample_share=0.5)
    samples = {name: n.get(name) for name in ("obs", "action", "log_prob", "valid", "advantage", "done", "state")}
    return learner, Samples(**samples, target=n["returns"])


@pytest.mark.parametrize("entropy_coef", [0.0, 0.02])
@pytest.mark.parametrize("kind", ["continuous", "discrete", "several choices"])
@pytest.mark.parametrize("algo", ["ppo", "a3c"])
def test_gradient_and_metrics_without_autograd_are_those_of_autograd(algo, kind, entropy_coef):
    policy, n = made_up(kind)
    learner, batch = learner_and_batch(algo, policy, n, entropy_coef)
    buckets = []
    for compute in (learner._compute_gradient, learner._by_autograd):
        compute(batch)
        buckets.append(learner.flat.bucket.clone())
    assert policy.is_plain and len(learner.flat.tail) == len(learner.measured) - 1
    torch.testing.assert_close(*buckets, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algo", ["ppo", "a3c"])
@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_gradients_in_bfloat16_are_near_those_of_autograd_and_not_those_of_float32(kind, algo, monkeypatch):
    observation, action, settings = KINDS[kind]
    monkeypatch.setitem(KINDS, kind, (observation, action, replace(settings, hidden=(32, 16), bf16=True)))
    policy, n = made_up(kind)
    exact = deepcopy(policy)
    exact.bf16 = False
    buckets = []
    for one, by_autograd in ((policy, False), (policy, True), (exact, False)):
        learner, batch = learner_and_batch(algo, deepcopy(one), n, entropy_coef=0.02)
        (learner._by_autograd if by_autograd else learner._compute_gradient)(batch)
        buckets.append(learner.flat.bucket.clone())
    rounded, expected, in_float32 = buckets
    assert policy.is_plain and (rounded - expected).norm() < 2e-2 * expected.norm()
    assert (rounded - expected).norm() < (rounded - in_float32).norm()
