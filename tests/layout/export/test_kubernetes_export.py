import re

import pytest
import yaml
from layouts import A100, H100, backends, cut, even, exported, profiles  # noqa: F401
from tool_schemas import device_plugin_config

from gmi_drl.errors import UsageError

pytestmark = pytest.mark.usefixtures("backends")


def config(layout, *models):
    """What the plugin reads, and what a pod asks for."""
    text = exported("kubernetes", layout, *models)
    asked = dict(re.findall(r"(nvidia\.com/[\w.-]+): (\d+)", text.partition("version:")[0]))
    return device_plugin_config(yaml.safe_load(text)), asked


@pytest.mark.parametrize(("backend", "way"), [("mps", "mps"), ("process", "timeSlicing")])
def test_equal_shares_are_replicas_of_every_gpu(backend, way):
    read, asked = config(cut(backend, even(4), even(4)), A100, A100)
    assert read == ("none", way, 4) and asked == {"nvidia.com/gpu": "1"}


def test_shares_that_say_what_is_usual_are_equal():
    assert config(cut("mps", [{"share": 0.5}, {}]), A100)[0] == ("none", "mps", 2)
    assert config(cut("mps", [{"share": 0.33}, {}, {}]), A100)[0] == ("none", "mps", 3)


def test_caps_that_the_layout_does_not_name_are_told():
    capped = "caps each GMI at 50 % of the SMs"
    assert capped in exported("kubernetes", cut("mps", even(2)), A100)
    assert capped not in exported("kubernetes", cut("mps", [{"share": 0.5}] * 2), A100)
    assert capped not in exported("kubernetes", cut("process", even(2)), A100)


def test_whole_gpus_are_shared_by_nobody():
    assert config(cut("mps", even(1), even(1)), A100, H100) == (("none", None, 1), {"nvidia.com/gpu": "2"})


def test_instances_of_mig_are_gpus_where_they_are_alike_and_else_have_names():
    assert config(cut("mig", even(7), even(7)), A100, A100) == (("single", None, 1), {"nvidia.com/gpu": "14"})
    mixed = cut("mig", profiles("3g.20gb", "1g.5gb+me", "1g.5gb"), even(1))
    names = {"mig-3g.20gb": "1", "mig-1g.5gb.me": "1", "mig-1g.5gb": "1", "mig-7g.40gb": "1"}
    assert config(mixed, A100, A100) == (("mixed", None, 1), {f"nvidia.com/{name}": n for name, n in names.items()})


@pytest.mark.parametrize(
    ("backend", "gpus", "words"),
    [
        ("mps", [[{"share": 0.7}, {"share": 0.3}]], r"50 % of the SMs.*GMI 0: 70 %, GMI 1: 30 %"),
        ("mps", [[{"memory_limit_bytes": 2**30}, {}]], "takes no `memory_limit_bytes`, which 1 GMI"),
        ("mps", [even(49)], "among 48 at most, not 49"),
        ("mps", [even(2), even(3)], "2 to 3 GMIs on a GPU"),
        ("process", [even(2), even(1)], "1 to 2 GMIs on a GPU"),
        ("mig", [profiles("4g.20gb", "4g.20gb"), even(1)], "do not fit"),
        (
            "mig-ci",
            [even(2)],
            "cannot say what backend 'mig-ci' does",
        ),
    ],
)
def test_what_the_plugin_cannot_do_is_refused_with_the_numbers(backend, gpus, words):
    with pytest.raises(UsageError, match=words):
        exported("kubernetes", cut(backend, *gpus), *[A100] * len(gpus))


def test_gpus_that_a_layout_leaves_out_cannot_stay_whole():
    with pytest.raises(UsageError, match="leaves out 1 of 2"):
        exported("kubernetes", cut("mps", even(2)), A100, A100)
