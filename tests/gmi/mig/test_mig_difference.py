import pytest

from gmi_drl.gmi.mig.apply.difference import Difference, commands, difference, mode_command
from gmi_drl.gmi.mig.state import MigState, Shape
from tests.gmi.mig.gpus_with_mig import GPU, instance, state


def compare(now, wanted, goes=lambda instance: True, part_goes=lambda part: True):
    return difference(now, wanted, goes=goes, part_goes=part_goes)


def test_what_agrees_stays():
    now = state(instance(1, "3g.20gb", 4), instance(2, "1g.5gb", 0))
    assert not compare(now, now.shapes)
    assert not compare(now, [Shape("3g.20gb", 4, (("3g.20gb", 0),)), *now.shapes[:1]])


def test_what_is_not_wanted_goes_and_what_is_missing_is_made():
    now = state(instance(1, "3g.20gb", 4), instance(2, "1g.5gb", 0))
    wanted = Shape("2g.10gb", 0, (("2g.10gb", 0),))
    changes = compare(now, [now.shapes[1], wanted])
    assert changes == Difference(to_destroy=(now.instances[1],), to_make=(wanted,)) and changes.uuids == ["MIG-2-0"]
    assert not compare(now, now.shapes[1:], goes=lambda one: one.id != 2)


def test_compute_instances_are_compared_one_by_one():
    now = state(instance(1, "3g.20gb", 0, [("1c.3g.20gb", 0), ("2c.3g.20gb", 1)]))
    changes = compare(now, [Shape("3g.20gb", 0, (("1c.3g.20gb", 0), ("1c.3g.20gb", 2)))])
    assert [part.uuid for _, part in changes.parts_to_destroy] == ["MIG-1-1"]
    assert changes.parts_to_make == ((1, ("1c.3g.20gb", 2)),) and not changes.to_destroy and not changes.to_make
    kept = compare(now, [Shape("3g.20gb", 0, ())], part_goes=lambda part: part.uuid == "MIG-1-0")
    assert [part.uuid for _, part in kept.parts_to_destroy] == ["MIG-1-0"] == kept.uuids


def test_commands_do_just_what_is_left():
    now = state(instance(1, "3g.20gb", 4), instance(5, "3g.20gb", 0, [("1c.3g.20gb", 0), ("2c.3g.20gb", 1)]))
    changes = compare(
        now,
        [
            Shape("2g.10gb", 4, (("2g.10gb", 0),)),
            Shape("1g.5gb", 6, ()),
            Shape("3g.20gb", 0, (("1c.3g.20gb", 0), ("1c.3g.20gb", 1))),
        ],
    )
    assert commands(GPU, changes) == [
        f"nvidia-smi mig -i {GPU} -gi 5 -ci 1 -dci",
        f"nvidia-smi mig -i {GPU} -gi 1 -ci 0 -dci",
        f"nvidia-smi mig -i {GPU} -gi 1 -dgi",
        f"nvidia-smi mig -i {GPU} -cgi 2g.10gb:4 -C",
        f"nvidia-smi mig -i {GPU} -cgi 1g.5gb:6",
        f"nvidia-smi mig -i {GPU} -gi 5 -cci 1c.3g.20gb:1",
    ]
    assert commands(GPU, Difference()) == []
    assert mode_command(GPU, enabled=False) == f"nvidia-smi -i {GPU} -mig 0"


def test_a_state_survives_json():
    now = state(instance(1, "3g.20gb", 4), instance(5, "3g.20gb", 0, [("1c.3g.20gb", 0)]))
    assert MigState.from_json(now.to_json()) == now
    with pytest.raises(TypeError):
        MigState.from_json({**now.to_json(), "other": 1})
