"""Learning: networks, rollout, normaliser and PPO, all on the device and free of host synchronisation."""
