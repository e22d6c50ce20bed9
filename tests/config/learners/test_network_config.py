from dataclasses import replace

import pytest

from gmi_drl.config.learners import LEARNERS, A3CConfig, PPOConfig
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import Observation, Part, categorical, continuous, image, vector

ANT = TASK_SPECS["ant"]
GAME = replace(ANT, observation=image(4, 84, 84), action=categorical(6), hidden=())
CART = replace(ANT, observation=vector(4), action=categorical(2), hidden=(64, 64))


@pytest.mark.parametrize("kind", [PPOConfig, A3CConfig])
@pytest.mark.parametrize(("spec", "activation"), [(GAME, "relu"), (CART, "tanh"), (ANT, "elu")])
def test_a_new_run_has_networks_that_suit_what_is_seen(kind, spec, activation):
    learner = kind.for_task(spec)
    assert (learner.hidden, learner.activation) == (spec.hidden, activation) and learner.check(spec, None) == []
    assert learner.entropy_coef == (0.01 if spec.action.categories else 0)


@pytest.mark.parametrize("kind", [PPOConfig, A3CConfig])
def test_memory_counts_bytes_of_images_as_bytes(kind):
    wide = replace(GAME, observation=vector(4 * 84 * 84))
    assert GAME.observation.nbytes * 4 == wide.observation.nbytes
    learner = kind.for_task(GAME)
    assert 0 < learner.bucket_bytes(GAME) < learner.memory_bytes(GAME, 1) < learner.memory_bytes(GAME, 2)


def test_settings_of_images_are_refused_without_any():
    assert PPOConfig(features=64).check(ANT, None) == ["learner.features is for images, and ant has none: leave it out"]
    (mistake,) = PPOConfig(obs_groups={"actor": ("polcy",)}).check(ANT, None)
    assert mistake == "learner.obs_groups.actor is polcy: there is policy"


def test_rsl_rl_refuses_choices():
    (mistake,) = LEARNERS.find("rsl_rl").model.for_task(CART).check(CART, None)
    assert "actions of categories, which rsl_rl does not have" in mistake


def test_rsl_rl_sees_images_by_its_cnn_alone():
    spec = replace(GAME, action=continuous(2))
    learner = LEARNERS.find("rsl_rl").model.for_task(spec)
    mistakes = learner.check(spec, None)
    assert [mistake.partition(",")[0] for mistake in mistakes] == [
        f"learner.runner.{who} is an MLPModel" for who in ("actor", "critic")
    ]
    assert "sees no image (policy): give a CNNModel with cnn_cfg by --rsl-rl-config" in mistakes[0]
    cnn = {who: {**learner.runner[who], "class_name": "CNNModel"} for who in ("actor", "critic")}
    assert learner.model_copy(update={"runner": learner.runner | cnn}).check(spec, None) == []


def test_parts_are_groups_of_rsl_rl():
    seen = Observation((Part("joints", (3,)), Part("camera", (1, 12, 12), "image")))
    spec = replace(ANT, observation=seen)
    learner = LEARNERS.find("rsl_rl").model.for_task(spec)
    (mistake,) = learner.check(spec, None)
    assert "the task has no group policy, only camera, joints: give, for example, --set" in mistake
    assert "obs_groups={actor: [camera, joints], critic: [camera, joints]}" in mistake
    groups = {"obs_groups": {"actor": ["joints"], "critic": ["joints"]}}
    assert learner.model_copy(update={"runner": learner.runner | groups}).check(spec, None) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"memory_size": 8}, "learner.memory_size is for memories: leave it out, or set learner.memory"),
        ({"sequence": 4}, "learner.sequence is for memories: leave it out, or set learner.memory"),
        (
            {"memory": "gru", "horizon": 12, "sequence": 5},
            "learner.sequence is 5, which does not divide learner.horizon, 12: give one of 1, 2, 3, 4, 6, 12",
        ),
    ],
)
@pytest.mark.parametrize("kind", [PPOConfig, A3CConfig])
def test_settings_of_memories_that_do_not_fit_are_refused(kind, settings, words):
    assert kind(**settings).check(ANT, None) == [words]


def test_with_a_memory_mini_batches_divide_sequences():
    learner = PPOConfig(memory="gru", horizon=12, sequence=4)
    assert (learner.units_of(10), learner.unit) == (30, "sequences") and learner.check(ANT, None) == []
    assert (PPOConfig(horizon=12).units_of(10), PPOConfig().unit) == (120, "transitions")


@pytest.mark.parametrize("kind", [PPOConfig, A3CConfig])
def test_stored_states_count_as_memory(kind):
    long, short = (kind(memory="gru", horizon=8, sequence=sequence) for sequence in (8, 2))
    more = short.memory_bytes(CART, 10) - long.memory_bytes(CART, 10)
    assert more == 10 * 3 * 2 * 4 * long.network.state_size(CART.observation)


def test_channels_carry_the_states_of_memories():
    plain, lstm = (A3CConfig(memory=memory).rollout_form(CART, 3) for memory in ("none", "lstm"))
    assert {kind.name for kind in lstm.kinds} - {kind.name for kind in plain.kinds} == {"state"}
    (state,) = [kind for kind in lstm.kinds if kind.name == "state"]
    assert state.shape == (2, 3, 2 * 2 * 128) and lstm.nbytes - plain.nbytes == state.nbytes
