import pytest
from rsl_rl_configs import CONVOLUTIONS, GAUSSIAN, NETWORK, RND, SYMMETRY

from gmi_drl.config.learners import RslRlConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import parse

IMAGES = {**NETWORK, "class_name": "rsl_rl.models:CNNModel", "cnn_cfg": CONVOLUTIONS}
MEMORY = {**NETWORK, "class_name": "RNNModel"}


def learner(actor=NETWORK, critic=NETWORK, groups=None, **algorithm):
    runner = {
        "num_steps_per_env": 4,
        "obs_groups": groups or {},
        "actor": {"distribution_cfg": GAUSSIAN, **actor},
        "critic": critic,
        "algorithm": algorithm,
    }
    return parse(RslRlConfig, {"kind": "rsl_rl", "runner": runner}, "agent.yaml")


def without(section, key):
    return {name: value for name, value in section.items() if name != key}


def scheduled(**schedule):
    return {"rnd_cfg": RND | {"weight_schedule": schedule}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            ({"rnd_cfg": without(RND, key)}, rf"algorithm\.rnd_cfg\.{key}: missing")
            for key in ("weight", "num_outputs", "predictor_hidden_dims", "target_hidden_dims")
        ),
        ({"rnd_cfg": {}}, r"4 mistakes"),
        ({"rnd_cfg": RND | {"target_hidden_dims": []}}, r"rnd_cfg\.target_hidden_dims: .*at least 1 item"),
        (scheduled(final_step=3), r"rnd_cfg\.weight_schedule\.mode: missing"),
        (scheduled(mode="cosine"), r"rnd_cfg\.weight_schedule\.mode: .*'linear'"),
        (
            scheduled(mode="step", final_step=3),
            r"weight_schedule\.final_value: a number is missing, mode step needs it",
        ),
        (scheduled(mode="linear", final_step=3, final_value=0), r"weight_schedule\.initial_step: a number is missing"),
        ({"symmetry_cfg": {}}, r"symmetry_cfg\.data_augmentation_func: missing"),
        (
            {"symmetry_cfg": SYMMETRY, "critic": MEMORY},
            r"algorithm\.symmetry_cfg: .* memory \(RNNModel\): leave it out",
        ),
        ({"share_cnn_encoders": True}, r"algorithm\.share_cnn_encoders: `actor` and `critic` must both be a CNNModel"),
        ({"share_cnn_encoders": True, "actor": IMAGES}, r"algorithm\.share_cnn_encoders: "),
        ({"actor": without(IMAGES, "cnn_cfg")}, r"actor\.cnn_cfg: missing"),
        ({"actor": IMAGES, "critic": without(IMAGES, "cnn_cfg")}, r"critic\.cnn_cfg: missing"),
        ({"actor": {"distribution_cfg": None, **NETWORK}}, r"actor\.distribution_cfg: missing, actions are drawn"),
        ({"actor": NETWORK | {"distribution_cfg": {"init_std": 1}}}, r"actor\.distribution_cfg\.class_name: missing"),
        ({"groups": {"actor": [], "critic": ["policy"]}}, r"obs_groups\.actor: .*at least 1 item"),
    ],
)
def test_a_key_whose_partner_is_missing_is_refused_by_name(settings, message):
    with pytest.raises(UsageError, match=rf"(?s){message}"):
        learner(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"rnd_cfg": RND | {"weight_schedule": {"mode": "constant"}}},
        scheduled(mode="step", final_step=3, final_value=0),
        {"symmetry_cfg": SYMMETRY},
        {"share_cnn_encoders": True, "actor": IMAGES, "critic": without(IMAGES, "cnn_cfg")},
        {"share_cnn_encoders": True, "actor": {"class_name": "mine:Net"}, "critic": {"class_name": "mine:Net"}},
        {"actor": {"class_name": "mine:Net", "distribution_cfg": None}},
        {"share_cnn_encoders": False, "rnd_cfg": None, "symmetry_cfg": None},
    ],
)
def test_whole_settings_and_networks_of_others_are_taken(settings):
    assert learner(**settings).horizon == 4
