from gmi_drl.launch.nodes.versions import differing, versions_here


def test_nodes_with_the_same_versions_have_no_table():
    assert set(versions_here()) >= {"python", "torch", "mujoco"}
    assert differing({"a": versions_here(), "b": versions_here()}) == ""


def test_only_what_differs_is_in_the_table():
    table = differing({"a": {"python": "3.11", "torch": "2.13.0"}, "node-2": {"python": "3.11", "torch": "2.12.1"}})
    assert table.splitlines() == ["       a       node-2", "torch  2.13.0  2.12.1"]
