import json

import pytest

from gmi_drl.roles.launcher.protocol import (
    Attached,
    Done,
    Failed,
    Measure,
    Ready,
    Reduce,
    Report,
    Save,
    Start,
    Stop,
    Wrote,
    parse_message_to_gmi,
    parse_message_to_launcher,
    to_json,
)

TO_GMI = [Start(), Stop(), Stop(7), Save(7), Measure(256, 1.5), Measure(256, 2), Reduce("MPR-shm")]
TO_LAUNCHER = [
    Attached(),
    Ready(),
    Report({"a": 1, "b": {"c": None}}),
    Wrote({"steps": 3}),
    Done([1]),
    Done(None),
    Failed("oh", 4, True),
]


@pytest.mark.parametrize(
    ("parse", "messages"), [(parse_message_to_gmi, TO_GMI), (parse_message_to_launcher, TO_LAUNCHER)]
)
def test_a_message_survives_json(parse, messages):
    assert [parse(json.loads(json.dumps(to_json(message)))) for message in messages] == messages


@pytest.mark.parametrize(
    ("parse", "messages"), [(parse_message_to_gmi, TO_LAUNCHER), (parse_message_to_launcher, TO_GMI)]
)
def test_messages_of_the_other_direction_are_refused(parse, messages):
    for message in messages:
        with pytest.raises(ValueError, match="expected one of"):
            parse(to_json(message))


@pytest.mark.parametrize(
    "message", [3, [], {}, {"type": "row"}, {"kind": "Riddle"}, {"kind": ["Done"]}, {"kind": None}]
)
def test_a_value_that_is_no_message_is_refused(message):
    with pytest.raises(
        ValueError,
        match="expected one of Attached, OnDevice, StoreFile, StoreCommand, Ready, Acts, Report, Holds, Waits, Wrote",
    ):
        parse_message_to_launcher(message)


@pytest.mark.parametrize("changed", [{"num_env": "256"}, {"num_env": 2.5}, {"seconds": None}, {"more": 1}], ids=str)
def test_fields_of_messages_to_a_gmi_are_checked(changed):
    message = to_json(Measure(256, 1.5))
    with pytest.raises(ValueError, match="Measure comes with num_env: int, seconds: float"):
        parse_message_to_gmi(message | changed)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"kind": "Done"}, "Done comes with result: Any"),
        ({"kind": "Attached", "row": {}}, "Attached comes with nothing"),
        ({"kind": "Ready"}, "Ready comes with compiled_s: float"),
        ({"kind": "Report", "row": [1]}, "Report comes with row: dict"),
        ({"kind": "Failed", "message": "oh", "exit_code": "1", "blames_peer": False}, "Failed comes with message: str"),
    ],
)
def test_fields_of_messages_to_the_launcher_are_checked(message, told):
    with pytest.raises(ValueError, match=told):
        parse_message_to_launcher(message)
