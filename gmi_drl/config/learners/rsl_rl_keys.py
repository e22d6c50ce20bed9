"""For each key of rsl_rl's `train_cfg`: whether a resumed run takes another value, and which have no effect here."""

from gmi_drl.config.settings import LEARNING_RATE, LIVE, NETWORKS, RUN, Setting

RUN_SETTINGS = {"max_iterations": "iterations", "seed": "seed", "save_interval": "checkpoint_every"}
"""What rsl_rl's users write into the same file, and which setting of a run it is."""

_STATE = Setting(fixed="what it has learnt cannot go on as another one")
_RESUMED = Setting(idle="rsl_rl's checkpoints are pickles, which are not loaded: a run goes on by `train --resume RUN`")
_PLACE = Setting(idle="the layout says where a run trains")
_FOLDER = Setting(idle="--run-dir names the folder of a run")
_OF_MJLAB = Setting(idle="it is of mjlab's own runner")

ALGORITHM = Setting(
    inner={
        "class_name": RUN,
        "learning_rate": LEARNING_RATE,
        "optimizer": _STATE,
        "rnd_cfg": _STATE,
        "share_cnn_encoders": NETWORKS,
        **dict.fromkeys(("num_learning_epochs", "num_mini_batches", "schedule", "desired_kl"), LIVE),
        **dict.fromkeys(("clip_param", "gamma", "lam", "value_loss_coef", "use_clipped_value_loss"), LIVE),
        **dict.fromkeys(("entropy_coef", "max_grad_norm", "normalize_advantage_per_mini_batch"), LIVE),
        **dict.fromkeys(("use_mixed_precision", "symmetry_cfg"), LIVE),
    },
    others=LIVE,  # rsl_rl refuses what its PPO does not take
)

RUNNER = Setting(
    inner={
        "class_name": RUN,
        "runner_class_name": RUN,
        "actor": NETWORKS,
        "critic": NETWORKS,
        "obs_groups": NETWORKS,
        "algorithm": ALGORITHM,
        **dict.fromkeys(("num_steps_per_env", "clip_actions", "check_for_nan", "torch_compile_mode"), LIVE),
        **dict.fromkeys(("logger", "run_name", "wandb_project", "neptune_project"), LIVE),
        **dict.fromkeys(("resume", "load_run", "load_checkpoint"), _RESUMED),
        "device": _PLACE,
        "experiment_name": _FOLDER,
        **dict.fromkeys(("wandb_tags", "upload_model"), _OF_MJLAB),
    },
    others=Setting(idle="rsl_rl's runner has no such key that gmi-drl knows"),
)
"""Of `learner.runner`; what is translated beforehand (`policy`, `empirical_normalization`) is not in it."""


def of_the_run(key: str) -> str:
    """A setting as `--set` names it: that of the run for a key of rsl_rl's that stands for one."""
    place, _, last = key.rpartition(".")
    return RUN_SETTINGS.get(last, key) if place == "learner.runner" else key
