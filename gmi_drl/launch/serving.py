"""Serves the trained policy of a run on all GMIs of a layout (TCG, paper section 5.1)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_settings import check_settings
from gmi_drl.errors import UsageError, told_with
from gmi_drl.gmi.utilisation import Sampler, watched_gpus
from gmi_drl.launch.job import TaskJob, wait_mistakes, world_mistakes
from gmi_drl.launch.nodes.supervisor_starters import SupervisorStarter
from gmi_drl.launch.open_layout import hold_devices, opened
from gmi_drl.launch.policies import LearningPolicy, served_policies
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.launch.served import Served, ServedGMI, span
from gmi_drl.launch.signals import StopRequest, stop_on_signals
from gmi_drl.launch.task_info import task_spec
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.waits import waits_of
from gmi_drl.replay.files.index import SHARD_BYTES, GMIExperience, sizes_of, step_bytes
from gmi_drl.replay.files.writer import ExperienceWriter, write_experience
from gmi_drl.roles.launcher.protocol import Ready, Start, Stop, Wrote
from gmi_drl.roles.replay.sink import TableSink
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.latency import Latencies
from gmi_drl.roles.serving.player import load_agent, load_newest_learner, require_policy
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint import LEARNER_PART
from gmi_drl.run.folder import RunFolder, versions
from gmi_drl.run.frozen import with_own_copies
from gmi_drl.templates import Template, unchecked_template_for
from gmi_drl.templates.tcg import SERVING
from gmi_drl.templates.workers import SERVED_ACTOR
from gmi_drl.workload import TaskSpec


def serve(
    layout: Layout,
    run: RunFolder,
    *,
    steps: int,
    seed: int = 0,
    stochastic: bool = False,
    apply_mig: bool = False,
    supervisors: SupervisorStarter | None = None,
    experience: Path | None = None,
    into: str | None = None,
    token: str | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> Served:
    """Run the policy of a run's newest checkpoint on all GMIs of a layout. Nothing is written into the run.

    All GMIs start together. The i-th that simulates has the environments and the noise of `gmi-drl play` with the seed
    `serving_seed(seed, i)`: on a CPU with the same number of threads it plays the same episodes. The first Ctrl-C ends
    them in order; the results so far are returned.

    Args:
        layout: A layout by a template for serving.
        run: The run with the policy.
        steps: Control steps of every environment.
        seed: Seed of environments and noise.
        stochastic: Act with the noise of training instead of the mean.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        supervisors: Starts the supervisors of the layout's nodes; None for a layout of this machine.
        experience: A new folder for what all GMIs see, do and get; see `replay.files`.
        into: `HOST:PORT/TABLE` of a replay server that gets it; see `TableSink`.
        token: Of that server.
        on_start: Called when the devices are cut and the GMIs have been started.

    Raises:
        UsageError: if the layout is not for serving or has another task, the run has no policy of our networks, its
            settings are not for the layout's devices, the folder for experience is not empty or the GMIs cannot
            write into it, or the table has other fields.
        ServerLostError: if there is no replay server for `into`.
        MachineError: if the disk has no room for the experience.
        LayoutMismatchError: if the layout does not fit this machine, or a device is in use.
        GmiError: if a GMI fails; the message names it and has the end of its log.
    """
    template, config, spec = servable(layout, run)
    roles = template.roles(layout, LEARNERS.find(config.learner.kind))
    require_one_machine(experience, is_local=supervisors is None)
    kept = None if experience is None else experience.resolve()
    params: dict[str, Any] = {"steps": steps, "seed": seed, "stochastic": stochastic}
    params |= {"experience": None if kept is None else str(kept), "shard_bytes": SHARD_BYTES}
    if config.policies and (into or experience):
        raise UsageError(f"{into or experience}: several policies write no experience: leave it out")
    if into is not None:
        _check_table(into, token, layout, spec, experience)
        params |= {"into": into, "token": token}
    with _copied_policies(run, layout, spec, config) as (folder, iteration, policies), stop_on_signals() as request:
        job = _job(layout, config, folder, roles, spec, policies)
        facts = {"run": str(run.path.resolve()), "iteration": iteration, "seed": seed, "stochastic": stochastic}
        with (
            nullcontext() if kept is None else _writing(kept, layout, spec, steps, facts) as written,
            hold_devices(layout, f"gmi-drl serve {run.path}", supervisors, apply_mig=apply_mig) as claim,
            opened(claim, job, params) as processes,
            Sampler(watched_gpus(layout, processes.instances.environment)) as sampler,
        ):
            on_start()
            silence_s = waits_of(layout).launcher_s(config.hang_s)
            _supervise(processes, template.leaders(layout), silence_s, request, written)
            if written and request.signal:
                written.state = "stopped"
        results: dict[int, dict[str, Any]] = processes.results
    for gmi_id in template.reporters(layout):
        results[gmi_id]["latencies"] = Latencies.from_json(results[gmi_id]["latencies"])
    gmis = {
        gmi_id: ServedGMI(**results[gmi_id], node=layout.device_of(gmi_id).node)
        for gmi_id in template.reporters(layout)
    }
    # Of several machines nothing is watched, so their clocks are not compared.
    return Served(gmis, iteration, request.signal, sampler.mean(*span(gmis.values())))


def servable(layout: Layout, run: RunFolder) -> tuple[Template, RunConfig, TaskSpec]:
    """The template of a layout that shall serve a run, and the run's configuration and task.

    Raises:
        UsageError: with all mistakes of the layout; or if it has another task, or the run no policy of our networks.
    """
    template = unchecked_template_for(layout, "serving")
    trained, config = run.read_setup()
    config = with_own_copies(config, run)
    task = require_policy(run, trained, config)
    mistakes = [*template.check(layout), *wait_mistakes(layout, config)]
    with told_with(mistakes):
        if layout.task != task:
            wanted = f"make a layout for {task}"
            raise UsageError(f"{run.path} has learnt {task}, this layout is for {layout.task}: {wanted}")
        _check_settings(run, task, layout, config)
        spec = task_spec(task, config.task)
        mistakes += world_mistakes(layout, spec)
    return template, config, spec


def require_one_machine(experience: Path | None, *, is_local: bool) -> None:
    """Refuse to write experience on a cluster: its nodes may not see a folder of this machine.

    Raises:
        UsageError: if experience shall be written and the GMIs are on a cluster.
    """
    if experience is not None and not is_local:
        remedy = "serve a layout of this machine, without --launcher, on each machine by itself"
        raise UsageError(
            f"{experience}: GMIs of a cluster cannot write experience into a folder of this machine: {remedy}"
        )


def _check_table(into: str, token: str | None, layout: Layout, spec: TaskSpec, experience: Path | None) -> None:
    """Raise before anything is started unless GMIs can write into a table."""
    if experience is not None:
        raise UsageError(f"experience goes to {experience} or to {into}: give one of them")
    _require_whole_gmis(into, layout)
    TableSink(into, spec, layout.num_env, token).close()


def _require_whole_gmis(where: object, layout: Layout) -> None:
    if apart := [gmi.id for gmi in layout.gmis if gmi.roles != SERVING]:
        raise UsageError(f"{where}: GMIs that simulate and act write experience, and GMIs {apart} do not do both")
    if rings := [gmi.id for gmi in layout.gmis if gmi.ring > 1]:
        raise UsageError(f"{where}: GMIs write the steps of all their environments at once: leave ring of {rings} out")


def _writing(
    folder: Path, layout: Layout, spec: TaskSpec, steps: int, facts: Mapping[str, Any]
) -> AbstractContextManager[ExperienceWriter]:
    """See `write_experience`; errors are raised before anything is started."""
    _require_whole_gmis(folder, layout)
    sizes = {"task": spec.name, **sizes_of(spec)}
    gmis = {
        gmi.id: GMIExperience(num_env=gmi.num_env, seed=serving_seed(facts["seed"], gmi.id), shards=())
        for gmi in layout.gmis
    }
    need = steps * step_bytes(spec) * sum(gmi.num_env for gmi in layout.gmis)
    return write_experience(folder, {**sizes, **facts, "versions": versions()}, gmis, need)


def _check_settings(run: RunFolder, task: str, layout: Layout, config: RunConfig) -> None:
    """Refuse settings of the run that are not for these devices, such as MuJoCo Warp's on cores."""
    on_gpu = any(device.kind == "gpu" for device in layout.devices)
    try:
        check_settings(
            find_task(task),
            on_gpu=on_gpu,
            physics=config.physics,
            room=config.warp,
            tells_terms=config.reward_terms,
            settings=config.task,
        )
    except UsageError as error:
        raise UsageError(f"{run.config_file}: {error}") from None


def _supervise(
    processes: GMIProcesses,
    leaders: tuple[int, ...],
    silence_s: float,
    request: StopRequest,
    written: ExperienceWriter | None,
) -> None:
    """Start all GMIs when the last one is ready. Stop them at a signal."""
    waiting, is_stopping = set(leaders), False
    try:
        for event in processes.events(silence_s=silence_s):
            if isinstance(event, GMIMessage) and isinstance(event.message, Ready):
                waiting.discard(event.gmi_id)
                for leader in () if waiting or is_stopping else leaders:
                    processes.send(leader, Start())
            if isinstance(event, GMIMessage) and isinstance(event.message, Wrote) and written:
                written.add(event.gmi_id, event.message.shard)
            if request.signal is not None and not is_stopping:
                is_stopping = True
                for leader in leaders:
                    processes.send(leader, Stop())
    finally:
        request.settle()  # signals must not interrupt the end of the processes


def _job(
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    roles: Mapping[int, str],
    spec: TaskSpec,
    policies: tuple[LearningPolicy, ...],
) -> TaskJob:
    """What is served. Actors of several policies have one role, whether they ask or act."""
    actors = [gmi.id for gmi in layout.with_role("simulator")] if policies else []
    roles = {**roles, **dict.fromkeys(actors, SERVED_ACTOR)}
    return TaskJob(layout, config, folder, roles, config.learner.bucket_bytes(spec), spec, policies=policies)


@contextmanager
def _copied_policies(
    run: RunFolder, layout: Layout, spec: TaskSpec, config: RunConfig
) -> Iterator[tuple[RunFolder, int, tuple[LearningPolicy, ...]]]:
    """Yield a temporary run folder with the newest policy or policies, which stay the same for all GMIs.

    Also the iteration, of several policies of the one that was trained least, and these; empty if there is one.
    """
    with temporary_folder("gmi-drl-serve-") as path:
        folder = RunFolder(path, stays=False)
        folder.create()
        policies = served_policies(layout, config, folder, spec)
        copied = [(run.policy(one.name), one.folder, one.config) for one in policies] or [(run, folder, config)]
        yield folder, min(_copy_policy(source, target, spec, own) for source, target, own in copied), policies


def _copy_policy(source: RunFolder, target: RunFolder, spec: TaskSpec, config: RunConfig) -> int:
    """Copy the newest policy of a run, or of one of its policies, into another's folder. Returns its iteration."""
    load_agent(source, spec, config)  # refuses a wrong policy before anything starts
    iteration, learner = load_newest_learner(source)
    target.create()
    policy = {name: learner[name] for name in ("parameters", "normaliser")}
    checkpoint.write_part(checkpoint.draft(target.checkpoints, iteration), LEARNER_PART, policy)
    facts = checkpoint.NO_TRAINING | {"iteration": iteration}
    checkpoint.commit(target.checkpoints, iteration, facts, kept=1)
    return iteration
