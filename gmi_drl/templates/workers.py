"""Workers, the template of SRL: actors, policies and trainers on GMIs of their own (arXiv 2306.16688, section 2)."""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import ceil

from gmi_drl.config.learners import LearnerEntry
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import GMI, Device, Layout, Role
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.policies import group_of, layout_of, policy_names
from gmi_drl.layout.pools import pools_of
from gmi_drl.layout.servers import actors_without_agent, policy_workers, services_of
from gmi_drl.templates.even import described, even_devices, more_gmis
from gmi_drl.templates.tcg import SERVING, TCG
from gmi_drl.templates.tcg_ex import TCG_EX
from gmi_drl.templates.template import Purpose, Template
from gmi_drl.templates.workers_on_gpus import USUAL, cut_with_gpus, told
from gmi_drl.units import counted

ACTOR = "gmi_drl.roles.workers.actor:ActorWorker"
POLICY = "gmi_drl.roles.workers.policy:PolicyWorker"
SERVED_ACTOR = "gmi_drl.roles.workers.serving:ServedActor"
SERVING_POLICY = "gmi_drl.roles.workers.serving:ServingPolicyWorker"
SERVER = "gmi_drl.roles.serving.server:Server"

_KINDS: tuple[tuple[Role, ...], ...] = (("simulator",), SERVING, ("agent",), ("trainer",))


class Workers(Template):
    """See `Template`. An even cut of cores has inline inference: the last GMI trains, the others simulate and act.

    With GPUs actors are on cores, and trainers and policy workers on the GPUs (`workers_on_gpus`).

    A layout file may have any number of each kind: actors `simulator, agent` or `simulator`, whose actions come from
    policy workers, `agent`, by `streams`; and trainers, `trainer`.
    """

    name = "workers"
    what = "actors send experience to trainers, and ask policy workers for actions or have an agent each (SRL)"
    purpose: Purpose = "training"
    planner: str | None = "gmi_drl.profiler.worker_plan:plan_here"
    profile_planner: str | None = "gmi_drl.scheduler.worker_cluster_plan:plan_by_files"
    channels: Channels | None = Channels()
    has_streams = True

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`: at least one GMI must act."""
        if node.num_gpus:
            return cut_with_gpus(node, cut)
        even = even_devices(node, cut, SERVING)
        count = sum(len(device.gmis) for device in even)
        if count < 2:
            needs = f"{self.name} needs 2 GMIs at least, of which one acts, not {counted(count, 'GMI')}"
            raise NoFeasiblePlanError(f"{needs}: {more_gmis(self.name, ceil(2 / len(even)))}")
        *others, last = even
        trainer = last.gmis[-1].model_copy(update={"roles": ("trainer",), "num_env": 0})
        gmis = (*last.gmis[:-1], trainer)
        return (*others, last.model_copy(update={"gmis": gmis}))

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """See `Template`: the last GMI."""
        last = list(chain.from_iterable(mapping))[-1]
        return [[gmi for gmi in device if gmi == last] for device in mapping]

    def training_on(self, devices: Sequence[Device]) -> MappingList:
        """See `Template`: with GPUs one on each of them."""
        gpus = [device for device in devices if device.kind == "gpu"]
        return [[device.gmis[-1].id] for device in gpus] if gpus else super().training_on(devices)

    def streams_of(self, devices: Sequence[Device]) -> Streams | None:
        """See `Template`: if there are policy workers."""
        return Streams() if any(gmi.roles == ("agent",) for device in devices for gmi in device.gmis) else None

    def usual_gmis_per_gpu(self, node: Node) -> int:
        """See `Template`: a policy worker and a trainer on a GPU."""
        return USUAL if node.num_gpus else super().usual_gmis_per_gpu(node)

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """See `Template`, with the number of actors."""
        if node.num_gpus:
            return [told(devices, node), f"{self.name}: {self.what}"]
        actors = sum(len(device.gmis) for device in devices) - 1
        sides = f"{counted(actors, 'actor')} with inline inference and 1 trainer"
        return [f"{described(devices, cut, node)}: {sides}", f"{self.name}: {self.what}"]

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        actors, mistakes = layout.with_role("simulator"), list[str]()
        of_others = {gmi.id for gmi in layout.gmis if gmi.policy is not None}  # see `layout.policies.layout_of`
        if others := [gmi.id for gmi in layout.gmis if gmi.roles not in _KINDS and gmi.id not in of_others]:
            kinds = "; ".join(", ".join(kind) for kind in _KINDS)
            mistakes.append(f"{self.name} has GMIs of these roles alone: {kinds}: see GMIs {others}")
        if not actors or (self.purpose == "training" and not layout.with_role("trainer")):
            needs = "an actor and a trainer" if self.purpose == "training" else "an actor"
            mistakes.append(f"{self.name} needs {needs} at least")
        for field in ("num_env", "ring"):
            values = {gmi.id: getattr(gmi, field) for gmi in actors}
            if len(set(values.values())) > 1:
                mistakes.append(f"{self.name} needs the same {field} on all actors, this layout has {values}")
        if uneven := {gmi.id: (gmi.num_env, gmi.ring) for gmi in actors if gmi.num_env % gmi.ring}:
            mistakes.append(f"ring must divide num_env: see GMIs with (num_env, ring) {uneven}")
        if on_gpu := [gmi.id for gmi in actors if layout.device_of(gmi.id).kind == "gpu"]:
            mistakes.append(f"{self.name} simulates on cores: put actors on a cpu device: see GMIs {on_gpu}")
        return mistakes

    def check(self, layout: Layout) -> list[str]:
        """See `Template`: there must also be channels, and streams exactly where actors have no agent.

        With several policies each must have all of this. How many rows a request of each has is not in the layout:
        who knows it calls `row_mistakes`.
        """
        names = policy_names(layout)
        if not names:
            return self._check_one(layout) + row_mistakes(layout)
        seen = {name: self._check_one(layout_of(layout, name)) for name in names}
        of_all = [one for one in seen[names[0]] if all(one in told for told in seen.values())]
        of_one = [f"policy {name}: {one}" for name, told in seen.items() for one in told if one not in of_all]
        return self._policy_mistakes(layout) + of_all + of_one

    def _check_one(self, layout: Layout) -> list[str]:
        mistakes = super().check(layout)
        if layout.channels is None and self.channels is not None:
            mistakes.append(f"{self.name} needs `channels: {{}}`, which carry experience to the trainers")
        idle = [str(pool.node) for pool in pools_of(layout) if not pool.agents] if layout.with_role("simulator") else []
        if idle:
            remedy = "put actors there, or more on nodes without trainers, or let fewer nodes train"
            mistakes.append(f"{self.name} needs an actor for the trainers of each node, {', '.join(idle)}: {remedy}")
        return mistakes + self._stream_mistakes(layout)

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`. UsageError for learners that cannot learn from experience of other GMIs."""
        trainer = learner.trainer
        if trainer is None or learner.actor is not None:
            where = "learns where it acts" if trainer is None else "has no workers"
            raise UsageError(f"{learner.name} {where}: take --algo ppo, or a layout by {TCG_EX.name}")
        by_role = {"trainer": trainer, "simulator": ACTOR, "agent": POLICY}
        return {gmi.id: by_role[gmi.roles[0]] for gmi in layout.gmis if gmi.roles}

    def restartable(self, layout: Layout) -> frozenset[int]:
        """See `Template`: actors, and policy workers on cores, on any machine.

        The answer to a request of an ended actor is seen by nobody. What an ended policy worker has not answered, its
        successor answers, by the same noise and states. On a GPU a killed process may harm those that share it.
        """
        on_cores = [gmi.id for gmi in policy_workers(layout) if layout.device_of(gmi.id).kind == "cpu"]
        return frozenset([*_ids(layout.with_role("simulator")), *on_cores])

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: rank 0 of each policy."""
        return tuple(layout.groups[group_of(name)].members[0] for name in policy_names(layout) or (None,))

    def _policy_mistakes(self, layout: Layout) -> list[str]:
        mistakes = []
        if acting := [gmi.id for gmi in layout.with_role("simulator") if gmi.policy is not None]:
            mistakes.append(f"actors act for all policies: leave `policy` of GMIs {acting} out")
        nameless = [gmi.id for gmi in layout.gmis if "simulator" not in gmi.roles and gmi.policy is None]
        if nameless:
            names = ", ".join(policy_names(layout))
            mistakes.append(f"give trainers and policy workers a `policy`, one of {names}: GMIs {nameless} have none")
        others = [gmi for gmi in layout.gmis if "simulator" not in gmi.roles]
        if len(nodes := sorted({str(layout.device_of(gmi.id).node) for gmi in others})) > 1:
            remedy = "put them on one, and actors on any"
            mistakes.append(
                f"trainers and policy workers of several policies are on nodes {', '.join(nodes)}: {remedy}"
            )
        groups = sorted(map(group_of, policy_names(layout))) if self.purpose == "training" else []
        if sorted(layout.groups) != groups:
            there = ", ".join(sorted(layout.groups)) or "none"
            mistakes.append(f"the groups of these policies are {', '.join(groups)}, and there are: {there}")
        return mistakes

    def _stream_mistakes(self, layout: Layout) -> list[str]:
        askers, agents = actors_without_agent(layout), [gmi for gmi in layout.gmis if gmi.roles == ("agent",)]
        if not layout.with_role("simulator"):
            return []  # which is told
        mistakes = self._setting_mistakes(layout) if layout.streams else []
        if layout.streams is None and (askers or agents):
            concerned = sorted(_ids([*askers, *agents]))
            mistakes.append(f"actors without an agent and policy workers need `streams: {{}}`: see GMIs {concerned}")
        if askers and not agents:
            remedy = "add one, or give them an agent (`roles: [simulator, agent]`)"
            mistakes.append(f"actors {_ids(askers)} have no agent, and no policy worker (`roles: [agent]`): {remedy}")
        elif len(askers) < len(agents):
            count = f"{counted(len(askers), 'actor')} without an agent for {counted(len(agents), 'policy worker')}"
            mistakes.append(f"each policy worker needs an actor without an agent, there are {count}: use fewer")
        elif idle := [one for service in services_of(layout) for one in service.servers if not service.clients_of(one)]:
            remedy = "put an actor without an agent on its node, or leave it out"
            mistakes.append(f"actors ask the policy workers of their node, so GMIs {idle} have none: {remedy}")
        return mistakes

    def _setting_mistakes(self, layout: Layout) -> list[str]:
        """The mistakes in the section `streams` of a layout that has actors."""
        settings, actors, askers = layout.streams, layout.with_role("simulator"), actors_without_agent(layout)
        assert settings is not None
        fewest, mistakes = settings.fewest_actors, list[str]()
        if fewest is not None and fewest > len(actors):
            there = f"the layout has {counted(len(actors), 'actor')}"
            mistakes.append(f"streams.fewest_actors is {fewest}, and {there}: lower it, or add actors")
        if fewest is None and not askers and not policy_workers(layout):
            none = "streams join actors without an agent to policy workers, this layout has neither"
            mistakes.append(f"{none}: leave them out")
        return mistakes


class ServedWorkers(Workers):
    """See `Template`: the layouts of `Workers` without trainers. Actors report, also for their policy workers."""

    purpose: Purpose = "serving"
    planner = profile_planner = None
    channels = None

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`: also what holds for training alone."""
        mistakes = super().role_mistakes(layout)
        if len(layout.nodes) > 1:
            mistakes.append(f"{self.name} serves on one machine, this layout has {len(layout.nodes)}")
        if layout.streams and layout.streams.fewest_actors is not None:
            mistakes.append("serving ends when an actor dies: leave streams.fewest_actors out")
        return mistakes

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`. UsageError for learners whose policies answer no requests."""
        if learner.trainer is None or learner.actor is not None:
            raise UsageError(f"{self.name} serves policies of ppo and a3c, not of {learner.name}: take {TCG.name}")
        by_roles = {("simulator",): SERVED_ACTOR, SERVING: SERVER, ("agent",): SERVING_POLICY}
        return {gmi.id: SERVED_ACTOR if gmi.ring > 1 else by_roles[gmi.roles] for gmi in layout.gmis}

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the actors."""
        return self.reporters(layout)

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the actors."""
        return tuple(_ids(layout.with_role("simulator")))

    def restartable(self, layout: Layout) -> frozenset[int]:
        """See `Template`: none."""
        return frozenset()


def row_mistakes(layout: Layout) -> list[str]:
    """What is wrong with the rows of a batch: fewer than one request has.

    Args:
        layout: With one policy, or as one of several sees it, with its rows (`layout.policies.layout_of`).
    """
    most = layout.streams.most_rows if layout.streams else None
    rows = max((gmi.num_env // gmi.ring for gmi in actors_without_agent(layout)), default=0)
    if most is None or most >= rows:
        return []
    return [f"streams.most_rows is {most}, and one request has {rows}: raise it, or ring"]


def _ids(gmis: Sequence[GMI]) -> list[int]:
    return [gmi.id for gmi in gmis]


SERVED_WORKERS = ServedWorkers()
WORKERS = Workers()
WORKERS.serving = SERVED_WORKERS
