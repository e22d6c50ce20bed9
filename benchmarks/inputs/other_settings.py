"""A second value for every setting of each learner's configuration; `walk_settings.py` sets them one at a time."""

RUN = {
    "seed": "7",
    "iterations": "3",
    "time_limit_s": "0.001",
    "checkpoint_every": "1",
    "checkpoint_every_s": "7.0",
    "checkpoints_kept": "1",
    "eval_every": "1",
    "eval_num_env": "2",
    "hang_s": "77.0",
    "cuda_graphs": "false",
    "tf32": "true",
    "physics": "warp",
    "warp.nconmax": "9",
    "warp.njmax": "9",
    "writers": "[tensorboard]",
    "reward_terms": "true",
    "task.noops": "3",
    "task.frame_skip": "2",
    "task.stack": "2",
    "task.image_size": "40",
    "task.lives_end": "false",
    "task.clip_rewards": "false",
    "task.sticky_actions": "0.25",
    "task.channels": "first",
    "task.agent_id": "true",
    "task.state": "false",
    "task.pad": "true",
}

OURS = {
    "learner.reward_scale": "0.5",
    "learner.hidden": "[16]",
    "learner.activation": "tanh",
    "learner.horizon": "6",
    "learner.minibatches": "1",
    "learner.learning_rate": "3e-3",
    "learner.schedule": "fixed",
    "learner.desired_kl": "1e-6",
    "learner.gamma": "0.5",
    "learner.clip": "0.01",
    "learner.value_loss_coef": "0.1",
    "learner.entropy_coef": "0.1",
    "learner.max_grad_norm": "0.01",
    "learner.init_std": "0.9",
    "learner.bootstrap": "last_value",
    "learner.conv": "[[4, 3, 1]]",
    "learner.features": "16",
    "learner.share": "true",
    "learner.memory": "gru",
    "learner.memory_size": "16",
    "learner.sequence": "2",
    "learner.bf16": "true",
    "learner.obs_groups": "{actor: [policy]}",
}

PPO = {**OURS, "learner.epochs": "1", "learner.lam": "0.2", "learner.clip_value_loss": "false"}

A3C = {
    **OURS,
    "learner.rollouts": "2",
    "learner.vtrace": "false",
    "learner.rho_clip": "0.5",
    "learner.c_clip": "0.5",
}

NETWORK = "{class_name: MLPModel, hidden_dims: [16], activation: elu, obs_normalization: true"
NOISE = "distribution_cfg: {class_name: GaussianDistribution, init_std: 0.3, std_type: log}"
CURIOSITY = "{weight: 1.0, learning_rate: 1e-3, num_outputs: 4, predictor_hidden_dims: [8], target_hidden_dims: [8]}"

RSL_RL = {
    "learner.reward_scale": "0.5",
    **{
        f"learner.runner.{key}": value
        for key, value in {
            "num_steps_per_env": "6",
            "clip_actions": "0.1",
            "check_for_nan": "false",
            "torch_compile_mode": "default",
            "logger": "tensorboard",
            "run_name": "mine",
            "wandb_project": "mine",
            "neptune_project": "mine",
            "actor": f"{NETWORK}, {NOISE}}}",
            "critic": f"{NETWORK}}}",
            "obs_groups": "{actor: [policy], critic: [policy, policy]}",
            "class_name": "OnPolicyRunner",
            "runner_class_name": "OnPolicyRunner",
            "resume": "true",
            "load_run": "abc",
            "load_checkpoint": "abc",
            "device": "cuda:7",
            "experiment_name": "mine",
            "wandb_tags": "[mine]",
            "upload_model": "true",
            "max_iterations": "3",
            "seed": "7",
            "save_interval": "1",
            "algorithm.num_learning_epochs": "1",
            "algorithm.num_mini_batches": "1",
            "algorithm.clip_param": "0.01",
            "algorithm.gamma": "0.5",
            "algorithm.lam": "0.2",
            "algorithm.value_loss_coef": "0.1",
            "algorithm.use_clipped_value_loss": "false",
            "algorithm.entropy_coef": "0.1",
            "algorithm.learning_rate": "3e-3",
            "algorithm.max_grad_norm": "0.01",
            "algorithm.schedule": "fixed",
            "algorithm.desired_kl": "1e-6",
            "algorithm.normalize_advantage_per_mini_batch": "true",
            "algorithm.use_mixed_precision": "true",
            "algorithm.optimizer": "sgd",
            "algorithm.symmetry_cfg": "{data_augmentation_func: 'mine:mirror', use_data_augmentation: false}",
            "algorithm.rnd_cfg": CURIOSITY,
            "algorithm.share_cnn_encoders": "false",
            "algorithm.class_name": "rsl_rl.algorithms:PPO",
        }.items()
    },
}

FROM_REPLAY = {
    "learner.reward_scale": "0.5",
    "learner.hidden": "[16]",
    "learner.activation": "tanh",
    "learner.horizon": "6",
    "learner.updates_per_step": "2.0",
    "learner.batch": "4",
    "learner.learning_rate": "3e-3",
    "learner.gamma": "0.5",
    "learner.replay.size": "20000",
    "learner.replay.placement": "cpu",
    "learner.replay.update_size": "12",
    "learner.replay.min_size": "400",
    "learner.replay.sampler": "prioritized",
    "learner.replay.exponent": "0.3",
    "learner.replay.beta": "0.9",
    "learner.replay.beta_steps": "1000",
    "learner.replay.n_step": "2",
    "learner.replay.next_obs": "twice",
    "learner.replay.stacks": "zeros",
    "learner.replay.saved": "false",
}

DQN = {
    **FROM_REPLAY,
    "learner.normalise": "true",
    "learner.conv": "[[4, 3, 1]]",
    "learner.features": "16",
    "learner.dueling": "true",
    "learner.stream": "16",
    "learner.double": "false",
    "learner.target_every": "1",
    "learner.epsilon_start": "0.0",
    "learner.epsilon_end": "0.9",
    "learner.epsilon_steps": "1",
    "learner.max_grad_norm": "1e-4",
}

SAC = {
    **FROM_REPLAY,
    "learner.normalise": "false",
    "learner.layer_norm": "true",
    "learner.tau": "0.5",
    "learner.actor_every": "2",
    "learner.alpha": "0.1",
    "learner.target_entropy": "3.0",
}

OF_LEARNER = {"ppo": PPO, "a3c": A3C, "rsl_rl": RSL_RL, "dqn": DQN, "sac": SAC}
