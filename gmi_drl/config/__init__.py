"""Settings of users: of a run, its task, its physics and its learner."""
