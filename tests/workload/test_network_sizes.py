from dataclasses import replace

import pytest

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.network_sizes import NetworkSettings, num_weights
from gmi_drl.workload.spaces import Action, Observation, Part, categorical, continuous, image, vector

CAMERA, JOINTS, STATE, MASK = (
    Part("camera", (3, 40, 40), "image"),
    Part("joints", (7,)),
    Part("state", (5,)),
    Part("allowed", (6,), "mask"),
)
OBSERVATIONS = [
    vector(9),
    image(1, 84, 84),
    image(4, 10, 10),
    Observation((CAMERA, JOINTS)),
    Observation((JOINTS, STATE)),
    Observation((JOINTS, MASK)),
]
NETWORKS = [
    (NetworkSettings((8,)), continuous(3)),
    (NetworkSettings((16, 8), features=32), categorical(6)),
    (NetworkSettings((), share=True, features=64), categorical(2, 4)),
    (NetworkSettings((8,), share=False, activation="relu"), Action(2, (6,))),
    (NetworkSettings((8,), memory="gru", memory_size=12, features=16), continuous(3)),
    (NetworkSettings((), memory="lstm", memory_size=12, share=True, features=16), categorical(6)),
    (NetworkSettings((4, 4, 4), share=True, features=16, activation="tanh"), categorical(6)),
]


COMBINATIONS = [
    (seen, *network) for seen in OBSERVATIONS for network in NETWORKS if network[1].categories or MASK not in seen.parts
]


@pytest.mark.parametrize(("observation", "settings", "action"), COMBINATIONS, ids=str)
def test_weights_are_those_of_the_modules(observation, settings, action):
    spec = replace(TASK_SPECS["ant"], observation=observation, action=action)
    policy = ActorCritic(spec, settings)
    made = sum(parameter.numel() for parameter in policy.parameters()) - policy.log_std.numel()
    assert made == num_weights(settings, observation, action)
    assert sum(p.numel() for p in policy.parameters_in_order()) == made + action.numbers


def test_critic_and_actor_may_see_unlike_parts():
    observation = Observation((JOINTS, STATE))
    settings = NetworkSettings((8,), groups={"actor": ("joints",)})
    policy = ActorCritic(replace(TASK_SPECS["ant"], observation=observation), settings)
    assert num_weights(settings, observation, continuous(8)) == sum(p.numel() for p in policy.parameters()) - 8
    assert policy.actor[1].in_features == 7 and policy.critic[0].in_features == 12


@pytest.mark.parametrize(
    ("settings", "observation", "words"),
    [
        (NetworkSettings((8,), conv=((4, 3, 1),)), vector(3), "learner.conv is for images"),
        (NetworkSettings((8,), conv=((4, 8, 4), (4, 8, 1))), image(1, 20, 20), "4 x 4 before convolution 2"),
        (NetworkSettings((8,), groups={"actor": ("jonts",)}), Observation((JOINTS, STATE)), "there is joints, state"),
        (NetworkSettings((8,), groups={"policy": ("joints",)}), vector(3), "it takes actor and critic"),
        (
            NetworkSettings((8,), share=True, groups={"actor": ("joints",)}),
            Observation((JOINTS, STATE)),
            "actor sees joints, critic sees joints, state",
        ),
    ],
)
def test_networks_that_cannot_see_an_observation_are_refused(settings, observation, words):
    (mistake,) = settings.mistakes(observation)
    assert words in mistake
