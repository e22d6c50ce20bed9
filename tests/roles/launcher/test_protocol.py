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
    Start,
    Stop,
    Wrote,
    said_by_gmi,
    said_by_launcher,
    to_message,
)

OF_LAUNCHER = [Start(), Stop(), Measure(256, 1.5), Measure(256, 2), Reduce("MPR-shm")]
OF_GMI = [
    Attached(),
    Ready(),
    Report({"a": 1, "b": {"c": None}}),
    Wrote({"steps": 3}),
    Done([1]),
    Done(None),
    Failed("oh", 4, True),
]


@pytest.mark.parametrize(("heard", "words"), [(said_by_launcher, OF_LAUNCHER), (said_by_gmi, OF_GMI)])
def test_a_word_is_heard_as_it_was_said(heard, words):
    assert [heard(json.loads(json.dumps(to_message(word)))) for word in words] == words


@pytest.mark.parametrize(("heard", "words"), [(said_by_launcher, OF_GMI), (said_by_gmi, OF_LAUNCHER)])
def test_nobody_says_the_words_of_the_other(heard, words):
    for word in words:
        with pytest.raises(ValueError, match="expected one of"):
            heard(to_message(word))


@pytest.mark.parametrize(
    "message", [3, [], {}, {"kind": "row"}, {"word": "Riddle"}, {"word": ["Done"]}, {"word": None}]
)
def test_what_is_no_word_is_refused(message):
    with pytest.raises(
        ValueError,
        match="expected one of Attached, OnDevice, Keep, AtHome, Ready, Report, Waits, Wrote, Warned, Done, Failed",
    ):
        said_by_gmi(message)


@pytest.mark.parametrize("changed", [{"num_env": "256"}, {"num_env": 2.5}, {"seconds": None}, {"more": 1}], ids=str)
def test_what_comes_with_a_word_is_checked(changed):
    message = to_message(Measure(256, 1.5))
    with pytest.raises(ValueError, match="Measure comes with num_env: int, seconds: float"):
        said_by_launcher(message | changed)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"word": "Done"}, "Done comes with result: Any"),
        ({"word": "Attached", "row": {}}, "Attached comes with nothing"),
        ({"word": "Ready"}, "Ready comes with compiled_s: float"),
        ({"word": "Report", "row": [1]}, "Report comes with row: dict"),
        ({"word": "Failed", "message": "oh", "exit_code": "1", "blames_peer": False}, "Failed comes with message: str"),
    ],
)
def test_what_comes_with_a_word_of_a_gmi_is_checked(message, told):
    with pytest.raises(ValueError, match=told):
        said_by_gmi(message)
