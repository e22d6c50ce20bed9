from types import SimpleNamespace

from on_two import over

from gmi_drl.launch.nodes.hub import cpus_of, joined

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


def test_containers_of_one_machine_have_the_cpus_of_their_own():
    found = cpus_of(LAYOUT, nodes(node("a", "x", [0, 1]), node("b", "x", [2, 3])))
    assert found == {"a": {"cpus": [0, 1], "claims": True}, "b": {"cpus": [2, 3], "claims": True}}


def test_all_ranks_are_told_in_their_order_where_each_listens():
    told = [{"trainers": {"1": ["10.0.0.2", 2]}}, {"trainers": {"0": ["10.0.0.1", 1]}}]
    first, second = joined(told), joined(told)
    addresses, token = first["trainers"]
    assert addresses == [["10.0.0.1", 1], ["10.0.0.2", 2]]
    assert len(token) == 32 and token != second["trainers"][1]
    assert joined([{"trainers": {}}, {}]) == {}
