import select
from types import SimpleNamespace

from on_two import over
from test_workers_on_nodes import ACTOR, POLICY, TRAINER, layout_of

from gmi_drl.config.run_config import RunConfig
from gmi_drl.launch.job import Job
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.meeting import Meeting
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI, RemoteInstances
from gmi_drl.launch.nodes.remote_hosts import RemoteHosts, cpus_of, has_same_versions
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.process_names import proxy_of

LAYOUT = over("a", "b", gmis=1)


def node(name, machine, cpus):
    return SimpleNamespace(name=name, machine=machine, cpus=cpus)


def nodes(*some):
    return {one.name: one for one in some}


def test_agents_of_unlike_machines_have_all_their_cpus_each():
    found = cpus_of(LAYOUT, nodes(node("a", "x", [0, 1]), node("b", "y", [4, 5])))
    assert found == {"a": {"cpus": [0, 1], "claims": True}, "b": {"cpus": [4, 5], "claims": True}}


def test_agents_of_one_machine_have_parts_of_their_own_where_there_are_enough():
    found = cpus_of(LAYOUT, nodes(node("a", "x", [3, 4, 5]), node("b", "x", [3, 4, 5])))
    assert found == {"a": {"cpus": [3], "claims": True}, "b": {"cpus": [4], "claims": True}}


def test_where_there_are_too_few_they_take_turns_under_one_claim():
    found = cpus_of(LAYOUT, nodes(node("a", "x", [3]), node("b", "x", [3])))
    assert found == {"a": {"cpus": [3], "claims": True}, "b": {"cpus": [3], "claims": False}}


def test_where_there_are_too_few_the_one_that_uses_most_claims_them():
    devices = tuple(
        Device(
            kind="cpu", node=name, gmis=tuple(GMI(id=gmi, num_env=1, cores=(core,)) for core, gmi in enumerate(gmis))
        )
        for name, gmis in (("a", [0]), ("b", [1, 2]))
    )
    found = cpus_of(Layout(devices=devices), nodes(node("a", "x", [3, 4]), node("b", "x", [3, 4])))
    assert found == {"a": {"cpus": [3, 4], "claims": False}, "b": {"cpus": [3, 4], "claims": True}}


def test_containers_of_one_machine_have_the_cpus_of_their_own():
    found = cpus_of(LAYOUT, nodes(node("a", "x", [0, 1]), node("b", "x", [2, 3])))
    assert found == {"a": {"cpus": [0, 1], "claims": True}, "b": {"cpus": [2, 3], "claims": True}}


def test_all_ranks_are_told_in_their_order_where_each_listens():
    told = [{"trainers": {"1": ["10.0.0.2", 2]}}, {"trainers": {"0": ["10.0.0.1", 1]}}]
    first, second = Meeting(LAYOUT).joined(told), Meeting(LAYOUT).joined(told)
    addresses, token = first["trainers"]
    assert addresses == [["10.0.0.1", 1], ["10.0.0.2", 2]]
    assert len(token) == 32 and token != second["trainers"][1]
    assert Meeting(LAYOUT).joined([{"trainers": {}}, {}]) == {}


def test_a_node_of_actors_that_may_come_later_gets_no_checkpoint(tmp_path):
    """Its actors get what they act by from the trainers; a node without a view of the run folder gets the setup."""
    folder, asked = RunFolder(tmp_path), {}
    folder.create()
    for file in (folder.layout_file, folder.config_file, folder.checkpoints / "000001" / "checkpoint.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("xyz")

    def unseeing(name):
        request = lambda message: asked.update({name: message["begins_with"]})  # noqa: E731
        memory = {"free": 2**40, "memory_group": "", "free_of_machine": 2**40}
        response = lambda wanted, wait_s: {"type": wanted, "sees_folder": False, **memory}  # noqa: E731
        return SimpleNamespace(name=name, machine=name, cpus=[0], request=request, response=response)

    layout, there = layout_of(1, Streams(fewest_actors=1), a=[TRAINER, ACTOR, POLICY], b=[ACTOR]), {}
    for name in "ab":
        there[name] = unseeing(name)
        job = Job(layout, RunConfig(), folder, {}, 8)
        RemoteHosts({}, "a test", apply_mig=False)._open(job, {name: there[name]})
    assert asked == {"a": 3, "b": 0}
    files = {name: [file for file, _ in node.receiver.pieces()] for name, node in there.items()}
    assert files["b"] == ["layout.yaml", "config.yaml"]
    assert files["a"] == [*files["b"], "checkpoints/000001/checkpoint.json"]


def test_a_node_gets_the_parts_that_its_gmis_read_and_a_single_node_all(tmp_path):
    """Of a checkpoint that it does not see. GMIs of a single node may deal out the rings of all others anew."""
    folder = RunFolder(tmp_path)
    folder.create()
    saved = folder.checkpoints / "000001"
    saved.mkdir()
    for name in ("checkpoint.json", "learner.safetensors", *(f"gmi-{number}.safetensors" for number in range(4))):
        (saved / name).write_text("xy")

    def parts(layout, node):
        job = Job(layout, RunConfig(), folder, {}, 8)
        receiver = FolderReceiver(
            folder, job.folder_of, restored=job.restored_on(node), parts=job.parts_on(node), frozen=[]
        )
        found = sorted(file.stem for file in receiver.files() if file.parts[0] == "checkpoints")
        assert receiver.size() == 2 * len(found)
        return found

    assert parts(over("a", "b"), "a") == ["checkpoint", "gmi-0", "gmi-1", "learner"]
    assert parts(over("a", "b"), "b") == ["checkpoint", "gmi-2", "gmi-3", "learner"]
    assert parts(over("a"), "a") == ["checkpoint", "gmi-0", "gmi-1", "gmi-2", "gmi-3", "learner"]


def test_of_a_lost_node_its_gmis_tell_and_not_who_stands_in_there_for_those_of_others(tmp_path):
    """The layout has these on another node, without which a run would go on."""
    said = []
    processes = [RemoteGMI(number, "a", 7, tmp_path / "log", said.append) for number in (0, proxy_of(2))]
    for process in processes:
        process.set_lost("its supervisor was killed")
        process.end()
    fds = [fd for process in processes for fd in (process.connection_fd, process.exit_fd)]
    assert select.select(fds, [], [], 0)[0] == fds[:2]
    assert [process.exit_code(0) for process in processes] == [LOST, LOST] and said == []
    for process in processes:
        process.close()


def test_a_node_with_other_versions_stays_outside_and_another_does_not():
    told, closed, versions = [], [], {"a": {"torch": "2.9"}}
    other, same = (SimpleNamespace(name=name, close=lambda name=name: closed.append(name)) for name in "bc")
    assert not has_same_versions(other, {**versions, "b": {"torch": "2.8"}}, told.append) and closed == ["b"]
    assert told[0].startswith("node b cannot join, it has other versions") and "2.8" in told[0]
    assert has_same_versions(same, {**versions, "c": {"torch": "2.9"}}, told.append) and len(told) == len(closed) == 1


def test_of_processes_with_the_same_number_on_two_nodes_that_of_the_gmi_is_released():
    hosts, sent = RemoteHosts({}, "a test", apply_mig=False), []
    for gmi, name in enumerate("ab"):
        connection = SimpleNamespace(send=lambda message, name=name: sent.append((name, message)))
        hosts._nodes[name] = SimpleNamespace(gmis={gmi: SimpleNamespace(pid=77)}, connection=connection)
    RemoteInstances(False, hosts._release).release({1: 77})
    assert sent == [("b", {"type": "release", "gmis": [1]})]
