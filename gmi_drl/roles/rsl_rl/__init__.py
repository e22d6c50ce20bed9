"""rsl_rl inside a GMI: its own runner, PPO and configuration, with our tasks, reduction, reports and checkpoints."""
