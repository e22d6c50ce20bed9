"""The paper's own numbers (section 5.1): what its tables and equations must give."""

from dataclasses import replace

import pytest

from gmi_drl.templates.paper_model import (
    Terms,
    dominant,
    even_bandwidth,
    gain,
    penalty,
    reduction_bytes,
    shared,
    tcg,
    tcg_ex,
    tdg,
    tdg_ex,
    throughput,
)

# R_s = 10 R_a = 5 R_t, T_s = 6 T_a = 3 T_t; 2 S + A + W = 14 = 2 (T_s + T_a), m (S + A + W) + M_p = 63 = 7 (T_s + T_a +
# T_t), both at BW = 1. One GMI sums nothing, as the paper takes the gradients to cost nothing beside.
SERVING = Terms(6, 1, 0, 10, 1, 0, alpha=0.2, beta=0, S=5, A=3, W=1, BW=1)
TRAINING = Terms(6, 1, 2, 10, 1, 2, alpha=0.2, beta=0.3, S=5, A=3, W=1, BW=1, m=6, M_p=9)


def test_sharing_a_gmi_serves_2_58_times_as_fast_for_a_penalty_of_0_163():
    assert tdg(SERVING).moved_bytes == 2 * (6 + 1) and tcg(SERVING).moved_bytes == 0
    assert tdg(SERVING).resource == pytest.approx(8.6) and tcg(SERVING).resource == 10
    assert penalty(tcg(SERVING), tdg(SERVING)) == pytest.approx(0.163, abs=5e-4)
    assert gain(tcg(SERVING), tdg(SERVING)) == pytest.approx(2.58, abs=5e-3)


def test_sharing_a_gmi_trains_5_46_times_as_fast_for_a_penalty_of_0_466():
    assert tdg_ex(TRAINING).moved_bytes == 7 * (6 + 1 + 2) and tcg_ex(TRAINING).moved_bytes == 0
    assert tdg_ex(TRAINING).resource == pytest.approx(61.4 / 9) and tcg_ex(TRAINING).resource == 10
    assert penalty(tcg_ex(TRAINING), tdg_ex(TRAINING)) == pytest.approx(0.466, abs=5e-4)
    assert gain(tcg_ex(TRAINING), tdg_ex(TRAINING)) == pytest.approx(5.46, abs=5e-3)


def test_gradients_that_cost_something_leave_less_of_it():
    many = replace(TRAINING, n=8, sums=2)
    assert tcg_ex(many).moved_bytes == 2 * 2 * 7 * 9 / 8 == tdg_ex(many).moved_bytes - 63
    assert 1 < gain(tcg_ex(many), tdg_ex(many)) < 3


def test_the_papers_alpha_and_beta_are_the_simulators_that_its_times_let_share_a_role():
    assert shared(1, 6) == pytest.approx(1 / 6) and round(shared(1, 6), 1) == 0.2
    assert shared(2, 6) == pytest.approx(1 / 3) and round(shared(2, 6), 1) == 0.3
    assert shared(0.1, 0.3) == pytest.approx(1 / 3), "whatever division makes of it"
    assert shared(2, 1) == 1 and shared(0, 1) == 0


def test_a_step_moves_the_vectors_of_all_environments():
    served = replace(SERVING, S=240, A=32, W=4, num_env=512, m=16)
    assert tdg(served).moved_bytes == 16 * 512 * (480 + 32 + 4)
    trained = replace(TRAINING, S=240, A=32, W=4, num_env=512, m=16, M_p=1000)
    assert tdg_ex(trained).moved_bytes == 16 * 512 * (240 + 32 + 4) + 1000


def test_there_is_a_bandwidth_at_which_both_are_as_fast():
    for given, dedicated, colocated in (SERVING, tdg, tcg), (replace(TRAINING, n=4), tdg_ex, tcg_ex):
        even = even_bandwidth(colocated(given), dedicated(given))
        same, faster = replace(given, BW=even), replace(given, BW=2 * even)
        assert gain(colocated(same), dedicated(same)) == pytest.approx(1)
        assert gain(colocated(faster), dedicated(faster)) < 1 < gain(colocated(given), dedicated(given))
    alike = replace(SERVING, R_a=10, alpha=1)
    assert even_bandwidth(tcg(alike), tdg(alike)) is None, "it moves less and holds no more"


def test_steps_are_those_of_all_gmis_that_the_resources_allow():
    whole = replace(TRAINING, R_s=0.5, R_a=0.1, R_t=0.25, R_all=4, num_env=100)
    assert tcg_ex(whole).steps_per_second == pytest.approx(4 / 0.5 * 6 * 100 / 9)


def test_equation_1_takes_what_a_process_needs_more_of():
    assert dominant(0.5, 0.25) == dominant(0.5, 0.5) == "SM" and dominant(0.1, 0.25) == "Memory"


def test_throughput_is_equation_3():
    assert throughput(4, steps=100, iteration_s=0.75, communication_s=0.25) == 400
    assert throughput(10 / 8, steps=1, iteration_s=6, communication_s=4) == 1 / 8


def test_a_sum_moves_what_table_5_says():
    assert reduction_bytes(1e6, 1) == 0 and reduction_bytes(1e6, 4) == 1.5e6 and reduction_bytes(1e6, 4, 16) == 24e6
