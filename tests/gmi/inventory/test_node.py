from gmi_drl.gmi import inventory


def test_this_node_counts_what_may_be_used():
    node = inventory.this_node()
    assert node.cpu.cores == len(inventory.allowed_cores()) and node.cpu.memory_gib > 0.1
