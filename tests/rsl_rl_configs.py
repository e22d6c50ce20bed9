"""Configurations of rsl_rl's runner in the forms that users of Isaac Lab and mjlab have, by kind and version.

Every key and kind of value that their dumps hold is here; layers and rollouts are small, so that a test is quick.
`UNSET` is what Isaac Lab dumps for a value that is `MISSING`.
"""

from dataclasses import MISSING

UNSET: dict = {}
LISTS, TUPLES = [16, 8], (16, 8)

WHERE = {"seed": 42, "device": "cuda:0", "num_steps_per_env": 4, "max_iterations": 1500}
KEPT = {
    "save_interval": 50,
    "experiment_name": "quadruped_flat",
    "run_name": "",
    "logger": "tensorboard",
    "neptune_project": "isaaclab",
    "wandb_project": "isaaclab",
    "resume": False,
    "load_run": ".*",
    "load_checkpoint": "model_.*.pt",
}
PPO = {
    "class_name": "PPO",
    "value_loss_coef": 1.0,
    "use_clipped_value_loss": True,
    "clip_param": 0.2,
    "entropy_coef": 0.005,
    "num_learning_epochs": 2,
    "num_mini_batches": 4,
    "learning_rate": 0.001,
    "schedule": "adaptive",
    "gamma": 0.99,
    "lam": 0.95,
    "desired_kl": 0.01,
    "max_grad_norm": 1.0,
}
PPO_2_1 = PPO | {"normalize_advantage_per_mini_batch": False, "symmetry_cfg": None, "rnd_cfg": None}
PPO_3 = PPO_2_1 | {"optimizer": "adam", "share_cnn_encoders": False}
POLICY = {
    "class_name": "ActorCritic",
    "init_noise_std": 1.0,
    "actor_hidden_dims": LISTS,
    "critic_hidden_dims": LISTS,
    "activation": "elu",
}
POLICY_2_1 = POLICY | {"noise_std_type": "scalar"}
POLICY_2_2 = POLICY_2_1 | {"actor_obs_normalization": UNSET, "critic_obs_normalization": UNSET}
POLICY_2_3 = POLICY_2_2 | {"state_dependent_std": False}
MEMORY = {"rnn_type": "lstm", "rnn_hidden_dim": 8, "rnn_num_layers": 2}
RND = {
    "weight": 10.0,
    "weight_schedule": None,
    "reward_normalization": True,
    "state_normalization": True,
    "learning_rate": 0.001,
    "num_outputs": 16,
    "predictor_hidden_dims": [-1],
    "target_hidden_dims": [-1],
}
SYMMETRY = {
    "use_data_augmentation": True,
    "use_mirror_loss": True,
    "data_augmentation_func": "rsl_rl_configs:twice",
    "mirror_loss_coeff": 0.1,
}
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
NETWORK = {"class_name": "MLPModel", "hidden_dims": LISTS, "activation": "elu", "obs_normalization": True}
NOISE_UNSET = {"stochastic": UNSET, "init_noise_std": UNSET, "noise_std_type": "scalar", "state_dependent_std": False}
CONVOLUTIONS = {
    "output_channels": [4, 8],
    "kernel_size": [3, 3],
    "stride": 1,
    "dilation": 1,
    "padding": "none",
    "norm": ["batch", "none"],
    "activation": "elu",
    "max_pool": [True, False],
    "global_pool": "avg",
    "flatten": True,
}
LAB_2_2 = WHERE | KEPT | {"clip_actions": None, "obs_groups": UNSET, "class_name": "OnPolicyRunner"}
LAB_3 = LAB_2_2 | {"check_for_nan": True, "empirical_normalization": UNSET, "policy": UNSET, "algorithm": PPO_3}

MJLAB = {
    "seed": 42,
    "num_steps_per_env": 4,
    "max_iterations": 30_000,
    "save_interval": 50,
    "experiment_name": "go1_velocity",
    "run_name": "",
    "logger": "wandb",
    "wandb_project": "mjlab",
    "wandb_tags": (),
    "resume": False,
    "load_run": ".*",
    "load_checkpoint": "model_.*.pt",
    "clip_actions": None,
    "class_name": "OnPolicyRunner",
}
PPO_MJLAB = PPO | {"normalize_advantage_per_mini_batch": False}
MJLAB_1_1 = MJLAB | {"upload_model": True, "obs_groups": {"actor": ("actor",), "critic": ("critic",)}}
PPO_MJLAB_1_1 = PPO_MJLAB | {"optimizer": "adam"}
NETWORK_MJLAB = {"hidden_dims": TUPLES, "activation": "elu", "obs_normalization": True, "class_name": "MLPModel"}
NULLS = {"cnn_cfg": None, "distribution_cfg": None, "rnn_type": None, "rnn_hidden_dim": 256, "rnn_num_layers": 1}

KINDS = {
    "Isaac Lab 1, one policy": WHERE | KEPT | {"empirical_normalization": False, "policy": POLICY, "algorithm": PPO},
    "Isaac Lab 2.1, empirical_normalization": {
        **(WHERE | KEPT | {"clip_actions": None, "logger": "neptune"}),
        "empirical_normalization": True,
        "policy": POLICY_2_1,
        "algorithm": PPO_2_1,
    },
    "Isaac Lab 2.1, rnd_cfg with a schedule": {
        **(WHERE | KEPT | {"clip_actions": 100.0}),
        "empirical_normalization": False,
        "policy": POLICY_2_1,
        "algorithm": PPO_2_1
        | {"rnd_cfg": RND | {"weight_schedule": {"mode": "step", "final_step": 100, "final_value": 0.0}}},
    },
    "Isaac Lab 2.1, a memory": {
        **(WHERE | KEPT | {"clip_actions": 10.0}),
        "empirical_normalization": False,
        "policy": POLICY_2_1 | MEMORY | {"class_name": "ActorCriticRecurrent"},
        "algorithm": PPO_2_1,
    },
    "Isaac Lab 2.2, motion tracking": LAB_2_2
    | {"empirical_normalization": True, "policy": POLICY_2_2, "algorithm": PPO_2_1, "run_name": "local_fight"},
    "Isaac Lab 2.2, another critic": LAB_2_2
    | {
        "empirical_normalization": UNSET,
        "obs_groups": {"policy": ["policy"], "critic": ["policy", "critic"]},
        "policy": POLICY_2_2 | {"noise_std_type": "log", "actor_obs_normalization": True},
        "algorithm": PPO_2_1 | {"schedule": "fixed", "desired_kl": None},
    },
    "Isaac Lab 2.3, resumed": LAB_2_2
    | {
        "empirical_normalization": None,
        "resume": True,
        "load_run": "2026-03-09_19-32-59",
        "policy": POLICY_2_3 | {"actor_obs_normalization": False, "critic_obs_normalization": False},
        "algorithm": PPO_2_1,
    },
    "Isaac Lab 2.3, symmetry_cfg": LAB_2_2
    | {
        "empirical_normalization": False,
        "policy": POLICY_2_3 | {"state_dependent_std": True},
        "algorithm": PPO_2_1 | {"symmetry_cfg": SYMMETRY},
    },
    "Isaac Lab 2.3, rnd_cfg with its group": LAB_2_2
    | {
        "empirical_normalization": MISSING,
        "obs_groups": {"policy": ["policy"], "critic": ["policy"], "rnd_state": ["rnd_state"]},
        "policy": POLICY_2_3,
        "algorithm": PPO_2_1 | {"rnd_cfg": RND, "symmetry_cfg": UNSET},
    },
    "Isaac Lab 3, two networks": LAB_3
    | {
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "actor": NETWORK | NOISE_UNSET | {"distribution_cfg": GAUSSIAN},
        "critic": NETWORK | NOISE_UNSET | {"distribution_cfg": None},
        "algorithm": PPO_3 | {"use_mixed_precision": False, "rnd_cfg": UNSET},
        "torch_compile_mode": None,
    },
    "Isaac Lab 3, two networks for rsl-rl-lib 4": LAB_3
    | {
        "actor": NETWORK | {"stochastic": True, "init_noise_std": 0.5, "noise_std_type": "log"},
        "critic": NETWORK | {"stochastic": False, "init_noise_std": 0.0, "state_dependent_std": False},
    },
    "Isaac Lab 3, a memory": LAB_3
    | {
        "obs_groups": {"actor": ["policy", "critic"], "critic": ["policy", "critic"]},
        "actor": NETWORK | MEMORY | {"class_name": "RNNModel", "rnn_type": "gru", "distribution_cfg": GAUSSIAN},
        "critic": NETWORK | MEMORY | {"class_name": "RNNModel", "rnn_type": "gru", "distribution_cfg": None},
    },
    "Isaac Lab 3, a camera": LAB_3
    | {
        "obs_groups": {"actor": ["policy", "camera"], "critic": ["policy", "camera"]},
        "actor": NETWORK | {"class_name": "CNNModel", "cnn_cfg": CONVOLUTIONS, "distribution_cfg": GAUSSIAN},
        "critic": NETWORK | {"class_name": "CNNModel", "cnn_cfg": CONVOLUTIONS, "distribution_cfg": None},
        "algorithm": PPO_3 | {"share_cnn_encoders": True},
    },
    "mjlab 1.0, one policy": MJLAB
    | {
        "obs_groups": {"policy": ("policy",), "critic": ("policy", "critic")},
        "policy": POLICY_2_2
        | {"actor_hidden_dims": TUPLES, "critic_hidden_dims": TUPLES}
        | {"actor_obs_normalization": True, "critic_obs_normalization": True},
        "algorithm": PPO_MJLAB,
    },
    "mjlab 1.1, two networks for rsl-rl-lib 4": MJLAB_1_1
    | {
        "actor": NETWORK_MJLAB | {"stochastic": True, "init_noise_std": 1.0, "noise_std_type": "scalar"},
        "critic": NETWORK_MJLAB | {"stochastic": False, "init_noise_std": 1.0, "noise_std_type": "scalar"},
        "algorithm": PPO_MJLAB_1_1,
    },
    "mjlab 1.2, null convolutions": MJLAB_1_1
    | {
        "actor": NETWORK_MJLAB | {"cnn_cfg": None, "distribution_cfg": GAUSSIAN},
        "critic": NETWORK_MJLAB | {"cnn_cfg": None, "distribution_cfg": None},
        "algorithm": PPO_MJLAB_1_1 | {"share_cnn_encoders": False},
    },
    "mjlab 1.6, its defaults": MJLAB_1_1
    | {
        "clip_actions": 1.0,
        "wandb_tags": ("flat", "go1"),
        "actor": NETWORK_MJLAB | NULLS | {"distribution_cfg": GAUSSIAN | {"std_range": (0.05, 0.5)}},
        "critic": NETWORK_MJLAB | NULLS,
        "algorithm": PPO_MJLAB_1_1 | {"share_cnn_encoders": False},
    },
    "mjlab 1.6, a memory": MJLAB_1_1
    | {
        "actor": NETWORK_MJLAB | NULLS | MEMORY | {"class_name": "RNNModel", "distribution_cfg": GAUSSIAN},
        "critic": NETWORK_MJLAB | NULLS | MEMORY | {"class_name": "RNNModel"},
        "algorithm": PPO_MJLAB_1_1 | {"share_cnn_encoders": False},
    },
    "rsl_rl's own example, everything under runner": {
        "runner": WHERE
        | KEPT
        | {"class_name": "OnPolicyRunner", "obs_groups": {"policy": ["policy"]}}
        | {"policy": POLICY_2_1, "algorithm": PPO_2_1, "logger": {"class_name": "WandbLogWriter", "project_name": "a"}},
    },
}

REFUSED = {
    "Isaac Lab 2.2, distillation": (
        LAB_2_2
        | {
            "class_name": "DistillationRunner",
            "obs_groups": {"policy": ["policy"], "teacher": ["policy"]},
            "policy": {"class_name": "StudentTeacher", "student_hidden_dims": LISTS, "teacher_hidden_dims": LISTS},
            "algorithm": {"class_name": "Distillation", "gradient_length": 15, "learning_rate": 0.001},
        },
        r"learner\.runner\.class_name: DistillationRunner cannot be run, only PPO",
    ),
    "Isaac Lab 2.1, distillation": (
        WHERE | KEPT | {"policy": {"class_name": "StudentTeacher"}, "algorithm": {"class_name": "Distillation"}},
        r"learner\.runner\.policy\.class_name: StudentTeacher cannot be trained",
    ),
    "Isaac Lab 3, distillation": (
        LAB_3
        | {"class_name": "DistillationRunner", "student": NETWORK, "teacher": NETWORK}
        | {"algorithm": {"class_name": "Distillation", "loss_type": "mse"}},
        r"learner\.runner\.class_name: DistillationRunner cannot be run",
    ),
    "a runner of one's own, Isaac Lab 1": (
        WHERE | KEPT | {"runner_class_name": "AmpOnPolicyRunner", "policy": POLICY, "algorithm": PPO},
        r"learner\.runner\.runner_class_name: AmpOnPolicyRunner cannot be run",
    ),
    "a policy of one's own, Isaac Lab 2.1": (
        WHERE | KEPT | {"policy": POLICY | {"class_name": "ActorCriticMoE"}, "algorithm": PPO},
        r"learner\.runner\.policy\.class_name: ActorCriticMoE cannot be trained",
    ),
}
"""With the sentence that tells why, when the file is read."""

TWO = {"obs_groups": UNSET, "actor": NETWORK | {"distribution_cfg": GAUSSIAN}, "critic": NETWORK}
FOREIGN = {
    "an algorithm of one's own": (
        LAB_3 | TWO | {"algorithm": PPO_3 | {"class_name": "PPOAMP", "amp_cfg": {"loss_type": "LSGAN"}}},
        r"learner\.runner\.algorithm\.class_name: PPOAMP cannot be found: install the package",
    ),
    "a network of one's own": (
        LAB_3 | TWO | {"actor": NETWORK | {"class_name": "their_package.models:EncoderModel"}},
        r"learner\.runner\.actor\.class_name: their_package\.models:EncoderModel cannot be found",
    ),
    "a distribution of one's own": (
        LAB_3 | TWO | {"actor": NETWORK | {"distribution_cfg": {"class_name": "their_package.Squashed"}}},
        r"learner\.runner\.actor\.distribution_cfg\.class_name: their_package\.Squashed cannot be found",
    ),
    "a symmetry of one's own": (
        LAB_3 | TWO | {"algorithm": PPO_3 | {"symmetry_cfg": SYMMETRY | {"data_augmentation_func": "their.mirror:m"}}},
        r"symmetry_cfg\.data_augmentation_func: their\.mirror:m cannot be found",
    ),
    "an option of another curiosity": (
        LAB_3 | TWO | {"algorithm": PPO_3 | {"rnd_cfg": RND | {"embedding_dims": 8}}},
        r"rnd_cfg\.embedding_dims: rsl_rl\.extensions:RandomNetworkDistillation of rsl-rl-lib 5\.\d does not have it",
    ),
    "an activation that nobody has": (
        LAB_3 | TWO | {"critic": NETWORK | {"activation": "wiggle"}},
        r"learner\.runner: rsl_rl refuses these settings for this task: ValueError: .*'wiggle'",
    ),
    "images where the worlds have none": (
        LAB_3 | TWO | {"critic": NETWORK | {"class_name": "CNNModel", "cnn_cfg": CONVOLUTIONS}},
        r"learner\.runner: rsl_rl refuses these settings for this task: ValueError: No 2D observations",
    ),
    "an option of a changed rsl_rl": (
        LAB_3 | TWO | {"algorithm": PPO_3 | {"teacher_loss_coef": 0.5}},
        r"learner\.runner\.algorithm\.teacher_loss_coef: PPO of rsl-rl-lib 5\.\d does not have it",
    ),
}
"""With the sentence that tells why, when the GMIs start."""


def twice(env, obs, actions):
    """A symmetry of nothing: every sample again."""
    import torch

    obs, actions = (None if part is None else torch.cat((part, part)) for part in (obs, actions))
    return obs, actions
