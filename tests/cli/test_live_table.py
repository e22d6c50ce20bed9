import re

import pytest
from conftest import tiny_config, tiny_layout
from rich.console import Console, ConsoleDimensions

from gmi_drl.cli.live_table import gmi_table, live_table, or_dash, usage_text
from gmi_drl.layout.layout import GMI, Channels, Device

ROW = {
    "iteration": 5,
    "env_steps": 123456,
    "steps_per_second": 23456.0,
    "return_mean": None,
    "episode_length_mean": 12.0,
    "bad_environments": 0.0,
    "learning_rate": 1e-3,
    "kl": 0.0123,
    "entropy": 1.594,
    "surrogate_loss": -0.0254,
    "value_loss": 0.298,
    "action_std": 0.295,
    "gmis": {str(i): {"sim_s": 0.1, "act_s": 0.01, "learn_s": 0.2, "sync_s": 0.1 * i} for i in range(2)},
}
USAGE = {"sm_util": 100.0, "sm_occupancy": 100.0, "dram_bandwidth": 100.0, "power_w": 700.0}


def lines_of(row, width=80, height=24, layout=None, config=None, elapsed_s=100.0):
    console = Console(width=width, height=height)
    with console.capture() as seen:
        layout, config = layout or tiny_layout(), config or tiny_config(iterations=10)
        console.print(live_table(row, [row], layout, config, elapsed_s, ConsoleDimensions(width, height)))
    return seen.get().splitlines()


def test_how_busy_a_gpu_was_is_named_for_what_it_is():
    assert usage_text({"sm_util": 41.4, "power_w": 310.2}) == "41 % of SMs active  310 W"
    assert usage_text({"gpu_busy": 97.0}) == "a kernel ran 97 % of the time" and usage_text({}) == ""


def test_what_was_not_measured_is_a_dash():
    assert (or_dash(None), or_dash(1.25), or_dash(0.0123, ".2e")) == ("-", "1.2", "1.23e-02")


def test_each_gpu_has_a_line():
    text = "\n".join(lines_of(ROW | {"devices": {"gpu0": {"sm_util": 41.0}, "gpu1": {"sm_util": 12.0}}}))
    assert "gpu0  41 % of SMs active" in text and "gpu1  12 % of SMs active" in text


def test_the_first_line_tells_how_much_is_done_and_the_time_left():
    # 123,456 steps in 5 iterations, five more at 23,456 steps/s: 5.3 s.
    assert re.search(r"━+ +50% +5.3 s left", lines_of(ROW)[0])
    limited = tiny_config(iterations=10, time_limit_s=102)
    assert lines_of(ROW, config=limited)[0].rstrip().endswith("2.0 s left")


@pytest.mark.parametrize("count", [8, 16, 64])
def test_no_row_is_wrapped_and_no_digit_is_cut_in_80_columns(count):
    phases = {"sim_s": 1234.567, "act_s": 123.456, "learn_s": 2345.678, "sync_s": 345.678}
    row = ROW | {"iteration": 123456, "return_mean": -123456.7, "learning_rate": 1e-5, "bad_environments": 123456.0}
    row |= {"lag_mean": 12.3, "lag_max": 45.0, "predictions_per_second": 1.23e6, "devices": {"gpu0": USAGE}}
    row |= {"gmis": {str(i): phases for i in range(count)}} | phases
    config = tiny_config(iterations=10**6, time_limit_s=9e5)
    lines = lines_of(row, layout=tiny_layout(count), config=config, elapsed_s=8e5)
    gmis = min(count, 24 - 1 - 6 - 1 - 3)
    assert len(lines) == 1 + 6 + 1 + 1 + gmis + 1, "one line each"
    assert "123456 of 1000000" in lines[1] and lines[1].rstrip().endswith("of 250 h 0 min")
    assert lines[4].startswith("learning rate") and "KL" in lines[4] and lines[-1].startswith("58% is learning")
    assert lines[6].rstrip().endswith("12.3 versions, 45 at most") and lines[7].rstrip().endswith("700 W")
    assert all(re.search(r" 1234567 ms +123456 ms +2345678 ms +345678 ms", line) for line in lines[9:-1])


def test_140_columns_show_losses_and_shares_too():
    narrow, wide = "\n".join(lines_of(ROW)), "\n".join(lines_of(ROW, width=140))
    assert "value loss" not in narrow and "%" not in narrow.split("simulate")[1]
    assert re.search(r"surrogate loss +-0.0254 +value loss +0.298", wide) and re.search(r"action std +0.295", wide)
    assert re.search(r"GMI 1 +100 ms +24% +10 ms +2% +200 ms +49% +100 ms +24%", wide)
    assert all(len(line) <= 140 for line in lines_of(ROW, width=140))


def test_who_else_uses_the_cores_is_the_last_line():
    console = Console(width=80, height=24)
    with console.capture() as seen:
        size = ConsoleDimensions(80, 24)
        console.print(live_table(ROW, [ROW], tiny_layout(), tiny_config(), 1.0, size, "other programs take 40%"))
    assert seen.get().splitlines()[-1].rstrip() == "other programs take 40%"


def test_a_terminal_that_is_too_low_still_has_one_row_of_gmis():
    row = ROW | {"gmis": {str(i): ROW["gmis"]["0"] for i in range(4)}}
    rows = [line for line in lines_of(row, height=8, layout=tiny_layout(4)) if line.rstrip().endswith(" ms")]
    assert [line.strip().split("  ")[0] for line in rows] == ["cpu 0, 4 GMIs"]


def labels(table):
    return list(table.columns[0].cells)


def test_gmis_of_unlike_roles_are_named_by_them():
    actor = GMI(id=0, roles=("simulator", "agent"), num_env=8, cores=(0,))
    parts = (actor, GMI(id=1, roles=("trainer",), num_env=0, cores=(1,)))
    layout = tiny_layout().model_copy(update={"devices": (Device(kind="cpu", gmis=parts),)})
    assert labels(gmi_table(ROW, layout, 5)) == ["GMI 0, simulator, agent", "GMI 1, trainer"]


def test_a_small_terminal_shows_devices_and_the_slowest_gmis():
    row = ROW | {
        "gmis": {str(i): {"sim_s": 0.1, "act_s": 0.01, "learn_s": 0.2, "sync_s": 0.3 - 0.1 * i} for i in range(4)}
    }
    assert labels(gmi_table(row, tiny_layout(4), 5)) == ["GMI 0", "GMI 1", "GMI 2", "GMI 3"]
    small = gmi_table(row, tiny_layout(4), 3)
    assert labels(small) == ["cpu 0, 4 GMIs", "GMI 3", "GMI 2"]  # they wait least: the others wait for them
    assert next(iter(small.columns[4].cells)) == "150 ms"
    assert labels(gmi_table(row, tiny_layout(4), 1)) == ["cpu 0, 4 GMIs"]


def test_workers_tell_what_trainers_consume_and_how_answers_are():
    told = {"predictions_per_second": 3e3, "lag_mean": 0.5, "lag_max": 1.0, "training_frames_per_second": 12e3}
    told |= {"version_age_s": 0.25, "rows": 7.5, "rows_p95": 8.0, "answer_p50_s": 0.0002, "answer_p99_s": 0.004}
    text = "\n".join(lines_of(ROW | told, width=120))
    for part in ("12.0k", "250.0 ms", "7.5, p95 8", "200.0 us, p99 4.0 ms"):
        assert part in text


def apart_layout(*roles):
    gmis = tuple(GMI(id=i, roles=one, num_env=8 * ("simulator" in one), cores=(i,)) for i, one in enumerate(roles))
    return tiny_layout().model_copy(
        update={"devices": (Device(kind="cpu", gmis=gmis),), "channels": Channels(), "template": "workers"}
    )


def test_actors_policies_and_trainers_have_rows_of_their_own():
    layout = apart_layout(("simulator",), ("simulator",), ("agent",), ("trainer",))
    told = {"sim_s": 0.2, "act_s": 0.1, "wait_s": 0.05, "fetch_s": 0.05, "answers_wait_s": 0.01}
    told |= {"requests_wait_s": 0.03, "versions_wait_s": 0.01}
    row = ROW | told | {"gmis": {"3": {"sim_s": 0.2, "act_s": 0.1, "learn_s": 0.3, "sync_s": 0.1}}}
    lines = lines_of(row, layout=layout)
    (place,) = [number for number, line in enumerate(lines) if "simulate" in line]
    shown = [[cell for cell in re.split(r"  +", line.strip()) if cell] for line in lines[place + 1 : place + 4]]
    assert shown == [
        ["actors, GMIs 0, 1", "200 ms", "100 ms", "100 ms"],
        ["policy, GMI 2", "40 ms"],
        ["trainer, GMI 3", "300 ms", "100 ms"],
    ]


def test_many_actors_are_counted():
    layout = apart_layout(*[("simulator", "agent")] * 6, ("trainer",))
    row = ROW | dict.fromkeys(("sim_s", "act_s", "wait_s", "fetch_s"), 0.1)
    assert labels(gmi_table(row | {"gmis": {"6": ROW["gmis"]["0"]}}, layout, 9)) == ["6 actors", "trainer, GMI 6"]


@pytest.mark.parametrize(("height", "lines"), [(24, 2), (19, 1)])
def test_a_long_remark_takes_two_lines_where_there_is_room(height, lines):
    console, size = Console(width=60, height=height), ConsoleDimensions(60, height)
    note = "other programs take 86% of this machine's cores: python (process 2224 of root) 60%"
    with console.capture() as seen:
        console.print(live_table(ROW, [ROW], tiny_layout(), tiny_config(), 1.0, size, note))
    last = [line.rstrip() for line in seen.get().splitlines()][-lines:]
    assert last[0].startswith("other programs") and (last[-1].endswith("60%") if lines == 2 else last[0][-1] == "…")


def test_nothing_is_left_at_the_end():
    assert lines_of(ROW | {"iteration": 10})[0].rstrip().endswith("100%")
