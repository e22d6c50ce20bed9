"""Measures the gradient noise scale on this machine by a short training."""

from collections.abc import Callable
from contextlib import closing

from gmi_drl.config.learners import LEARNERS, OUR_PPO
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.gmi import claimed
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import MIG, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.points import refusal
from gmi_drl.profiler.session import PATIENCE_S, Session
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.templates import TCG_EX, backend_refusal
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

NUM_ENV = 512
"""Environments of the training, and a few more for whole worlds: enough per update to tell the gradient from its noise,
few enough for many updates."""

SECONDS = 12.0
"""Longest training: later the scale is that of a better policy."""

LEAST_S = 2.0
"""Shortest training on a GPU, where the start may take all of the budget: some forty updates."""


def noise_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    budget: Budget,
    *,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> NoiseScale | None:
    """The gradient noise scale of a task, measured now or read from the cache.

    Args:
        task: The task to learn.
        config: The configuration, with the learner.
        node: This machine; one GMI uses one of its devices.
        budget: For all of it.
        fresh: Measure again what was measured before.
        tell: Called with a line about the result.

    Returns:
        None if the noise is too large to estimate the gradient.

    Raises:
        UsageError: if the learner has no probe for it.
        LayoutMismatchError: if the device is in use.
        GmiError: when the GMI fails.
    """
    role = require_noise_probe(config)
    cache = Cache(task, config, node, fresh=fresh)
    if cache.profile.noise is not None:
        return cache.profile.noise
    layout, num_env = _alone_here(task, node), task.whole_worlds(NUM_ENV)
    with claimed([layout], "gmi-drl is measuring") as claim, closing(Session(layout, config, role=role)) as session:
        budget.start(session, claim)
        seconds = min(SECONDS, max(budget.left_s, LEAST_S if node.num_gpus else 0.0))
        (row,) = session.measure(num_env, seconds, deadline_s=seconds + PATIENCE_S).rows
    trained = len(row["squares"]) * num_env * config.learner.horizon
    noise = NoiseScale.estimated(row["squares"], row["small"], row["large"], trained)
    if noise is None:
        tell(f"the gradient noise scale cannot be estimated from {human_count(trained)} samples")
        return None
    tell(f"gradient noise scale: {noise.described}")
    cache.add_noise(noise)
    return noise


def require_noise_probe(config: RunConfig) -> str:
    """`module:class` of the role that measures the noise scale of a learner.

    Raises:
        UsageError: if the learner has none.
    """
    learner = LEARNERS.find(config.learner.kind)
    if learner.noise_probe is None:
        remedy = f"take --objective steps, or plan for --algo {OUR_PPO.name}"
        raise UsageError(f"nothing measures the gradient noise scale of {learner.name}: {remedy}")
    return learner.noise_probe


def _alone_here(task: TaskSpec, node: Node) -> Layout:
    """The layout of one GMI on the first device of this machine: by MIG where only that can be had."""
    layout = _alone(task, node, PROCESS.name)
    if refusal(node, layout) and backend_refusal(node, Cut(1, NUM_ENV, MIG.name), memory_bytes=0) is None:
        by_mig = _alone(task, node, MIG.name)
        return layout if refusal(node, by_mig) else by_mig
    return layout


def _alone(task: TaskSpec, node: Node, backend: str) -> Layout:
    whole = TCG_EX.lay_out(task, node, Cut(1, NUM_ENV, backend))
    device = whole.devices[0]
    return Layout(
        task=whole.task,
        template=whole.template,
        backend=whole.backend,
        devices=(Device(kind=device.kind, index=device.index, gmis=device.gmis),),
        groups=TCG_EX.groups([[gmi.id for gmi in device.gmis]], node, backend),
    )
