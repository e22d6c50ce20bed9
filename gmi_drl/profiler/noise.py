"""The gradient noise scale on this machine, by a short training."""

from collections.abc import Callable
from contextlib import closing

from gmi_drl.config.learners import LEARNERS, OUR_PPO
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.gmi import claimed
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.session import PATIENCE_S, Session
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.templates import TCG_EX
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

NUM_ENV = 512
"""Of the training: its updates are large enough to tell the gradient from its noise, and small enough to be many."""

SECONDS = 12.0
"""Of training at most: later the scale is that of a better policy."""


def noise_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    budget: Budget,
    *,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> NoiseScale | None:
    """Measure it, or know it from before.

    Args:
        task: What is learnt.
        config: By whom.
        node: This machine; one of its devices is used, by one GMI.
        budget: For all of it.
        fresh: Measure anew what was measured before.
        tell: Told of it in a line.

    Returns:
        None where the gradient drowns in its noise.

    Raises:
        UsageError: if nothing could measure it for this learner.
        LayoutMismatchError: if the device is in use.
        GmiError: when the GMI fails.
    """
    role = require_noise_probe(config)
    cache = Cache(task, config, node, fresh=fresh)
    if cache.profile.noise is not None:
        return cache.profile.noise
    layout = _alone(task, node)
    with claimed([layout], "gmi-drl is measuring") as claim, closing(Session(layout, config, role=role)) as session:
        budget.start(session, claim)
        seconds = min(SECONDS, budget.left_s)
        (row,) = session.measure(NUM_ENV, seconds, deadline_s=seconds + PATIENCE_S).rows
    trained = len(row["squares"]) * NUM_ENV * config.learner.horizon
    noise = NoiseScale.estimated(row["squares"], row["small"], row["large"], trained)
    if noise is None:
        tell(f"the gradient noise scale cannot be told from {human_count(trained)} samples")
        return None
    tell(f"gradient noise scale: {noise.described}")
    cache.add_noise(noise)
    return noise


def require_noise_probe(config: RunConfig) -> str:
    """The role that measures the noise scale of a learner, by location.

    Raises:
        UsageError: if it brings none.
    """
    learner = LEARNERS.find(config.learner.kind)
    if learner.noise_probe is None:
        remedy = f"take --objective steps, or plan for --algo {OUR_PPO.name}"
        raise UsageError(f"nothing measures the gradient noise scale of {learner.name}: {remedy}")
    return learner.noise_probe


def _alone(task: TaskSpec, node: Node) -> Layout:
    """One GMI on the first device."""
    whole = TCG_EX.lay_out(task, node, Cut(1, NUM_ENV))
    device = whole.devices[0]
    return Layout(
        task=whole.task,
        template=whole.template,
        devices=(Device(kind=device.kind, index=device.index, gmis=device.gmis),),
        groups=TCG_EX.groups([[gmi.id for gmi in device.gmis]], node),
    )
