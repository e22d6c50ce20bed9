"""The page of all numbers of a run: their keys in rows of `metrics.jsonl`, their tags, what they mean."""

from gmi_drl.run.phases import PHASES
from gmi_drl.run.writers.tags import LEARNING_TIME, LEFT_OUT, RSL_RL_TAGS, scalars
from tools.site.markdown import page, table

INTRO = """A row of `metrics.jsonl` is one iteration of all GMIs. Writers (TensorBoard, W&B) get its numbers by rsl_rl's
tags where rsl_rl has them. Numbers that a learner of another package reports appear, too."""
MEANINGS = {
    "iteration": "The iteration, from 1 on; the axis of the plots",
    "env_steps": "Environment steps so far, of all GMIs",
    "steps_per_second": "Environment steps per second of all GMIs since the last row",
    "return_mean": "Mean return of about the last hundred episodes; null before one has ended",
    "eval_return_mean": "Mean return of episodes that the policy played without noise (`eval_every`)",
    "eval_s": "Seconds that these took",
    "episode_length_mean": "Mean length of these episodes, in steps",
    "reward_mean": "Mean reward of a step, before `reward_scale`",
    "episodes": "Episodes that ended in this iteration",
    "return_sum": "Sum of their returns",
    "length_sum": "Sum of their lengths",
    "bad_environments": "Steps of environments whose physics failed",
    "surrogate_loss": "Loss of the policy",
    "value_loss": "Loss of the value network",
    "entropy": "Entropy of the policy",
    "kl": "KL divergence from the policy that acted",
    "learning_rate": "The learning rate",
    "action_std": "Standard deviation of the actions, mean over their dimensions",
    "skipped_steps": "Steps of the optimizer that were skipped, because a gradient was not finite",
    "q_loss": "Loss of the values of actions (DQN, SAC)",
    "q_mean": "Their mean",
    "actor_loss": "Loss of SAC's policy",
    "alpha": "Weight of the entropy in SAC",
    "epsilon": "Share of random actions of DQN",
    "updates": "Updates so far (DQN, SAC, sequence)",
    "action_loss": "Loss of a sequence policy: squared errors of numbers, cross-entropies of choices",
    "data_wait_s": "Seconds in which GMI 0 waited for the contexts of its updates (sequence)",
    "replay_steps": "Steps in the rings of all GMIs that may begin a window",
    "replay_age_mean": "Versions between the policy that learns and those whose steps rank 0 drew, mean; decoupled",
    "replay_age_max": "The same, largest",
    "collect_s": "Seconds of simulating and acting",
}
PHASE_MEANINGS = {"sim_s": "simulating", "act_s": "acting", "learn_s": "learning", "sync_s": "waiting for other GMIs"}
DECOUPLED = {
    "predictions_per_second": "Actions per second (the paper's PPS)",
    "training_samples_per_second": "Samples learnt from per second (TTOP)",
    "training_frames_per_second": "The same times the frames of a step (SRL's FPS)",
    "lag_mean": "Versions that acting policies were behind, mean",
    "lag_max": "The same, most",
    "actors": "Actors that are there, where they come and go (`streams.fewest_actors`)",
    "version_age_s": "Seconds since the versions that acted were published, when trainers have the rollouts, mean",
    "dropped": "Rollouts that were dropped, by cause",
    "rollouts_wait_s": "Seconds that a trainer waited for the rollouts of an update, mean",
    "wait_s": "Seconds that an agent waited for a place",
    "fetch_s": "Seconds of taking a version of the parameters",
    "publish_s": "Seconds of publishing one",
    "rows": "Observations of a batch that is answered together, mean (template `workers`, as are those below)",
    "rows_p95": "The same, 95th percentile",
    "answer_p50_s": "Seconds from a request for actions to its answer, median of a rollout, mean over rollouts",
    "answer_p99_s": "The same, 99th percentile",
    "answers_wait_s": "Seconds that an actor waited for answers in a rollout, mean",
    "requests_wait_s": "Seconds that its policy worker waited for requests meanwhile, mean",
    "versions_wait_s": "Seconds that its policy worker waited for versions meanwhile, mean",
}
NESTED = [
    ("`gmis.ID.PHASE`", "`GMI/ID/PHASE`", "Seconds of each phase of one GMI"),
    ("`reward_terms.NAME`", "`Reward/NAME`", "Mean of a term of the reward per step, with `reward_terms: true`"),
    (
        "`world_returns.NAME`",
        "`GMI/world_returns/NAME`",
        "Mean return of worlds of several agents that ended: of all agents, and of an agent of each kind",
    ),
    ("`policies.NAME`", "`Policy/NAME/...`", "The row of one of several policies; beside it are sums or means of all"),
    ("`devices.gpu0.sm_util`", "`Device/gpu0/sm_util`", "Percent of the SMs that had work (Hopper and newer)"),
    ("`devices.gpu0.sm_occupancy`", "`Device/gpu0/sm_occupancy`", "Percent of the most warps that were on the SMs"),
    ("`devices.gpu0.dram_bandwidth`", "`Device/gpu0/dram_bandwidth`", "Percent of the memory's bandwidth"),
    ("`devices.gpu0.gpu_busy`", "`Device/gpu0/gpu_busy`", "Percent of the time in which any kernel ran (older GPUs)"),
    ("`devices.gpu0.power_w`", "`Device/gpu0/power_w`", "Mean power, W"),
]


def tag_of(key: str) -> str:
    """The tag of a number of a row; empty if it has none."""
    if key in LEFT_OUT:
        return ""
    phases: dict[str, float] = dict.fromkeys((str(phase.name) for phase in PHASES), 0.5)
    tags = scalars({**phases, "gmis": {}, **({} if key in phases else {key: 2.0})})
    wanted = 0.5 if key in phases else 2.0
    return next(tag for tag, value in tags.items() if value == wanted and tag.rsplit("/")[-1] != "learning_time")


def metrics_page() -> str:
    """Tables of the numbers of all rows, of asynchronous training, and of parts of a row."""
    rows = [(f"`{key}`", _shown(key), text) for key, text in MEANINGS.items()]
    rows += [
        (f"`{phase.name}`", _shown(phase.name), f"Seconds of {PHASE_MEANINGS[phase.name]}, mean over the GMIs")
        for phase in PHASES
    ]
    rows.append(("", f"`{LEARNING_TIME}`", "`learn_s` and `sync_s`, as rsl_rl counts"))
    others = [(f"`{key}`", f"`GMI/{key}`", text) for key, text in DECOUPLED.items()]
    assert RSL_RL_TAGS.keys() <= MEANINGS.keys()
    titles = ("key of a row", "tag", "meaning")
    return page(
        "Metrics",
        INTRO,
        f"\n{table(titles, rows)}",
        f"\n## Of asynchronous training\n\n{table(titles, others)}",
        f"\n## Within a row\n\n{table(titles, NESTED)}",
    )


def _shown(key: str) -> str:
    return f"`{tag}`" if (tag := tag_of(key)) else ""
