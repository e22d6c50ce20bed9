"""The estimator of the gradient noise scale, on gradients whose noise is known."""

import numpy as np
import pytest

from gmi_drl.scheduler.noise_scale import NoiseScale

SIZE, SMALL, PARTS = 400, 32, 16


def squares(noise_scale, updates, rng):
    """Of gradients around one of length 1 with noise of the trace S = noise_scale, as `GradientSquares` keeps them."""
    true = rng.normal(size=SIZE)
    true /= np.linalg.norm(true)
    for _ in range(updates):
        parts = true + rng.normal(scale=np.sqrt(noise_scale / SIZE / SMALL), size=(PARTS, SIZE))
        yield float((parts**2).sum(1).mean()), float((parts.mean(0) ** 2).sum())


@pytest.mark.parametrize("known", [20.0, 300.0, 4000.0])
def test_a_known_noise_scale_is_found_within_its_error(known):
    found = NoiseScale.estimated(list(squares(known, 60, np.random.default_rng(0))), SMALL, SMALL * PARTS, 1000)
    assert found is not None and found.trained == 1000
    assert 0 < found.relative_error < 0.5
    assert abs(np.log(found.samples / known)) < 3 * found.relative_error


def test_a_gradient_that_drowns_in_its_noise_is_no_number():
    no_signal = [(1.0, 1.0 / PARTS)] * 10  # noise alone: the mean of 16 has a 16th of the square
    assert NoiseScale.estimated(no_signal, SMALL, SMALL * PARTS, 0) is None
    assert NoiseScale.estimated([], SMALL, SMALL * PARTS, 0) is None
    assert NoiseScale.estimated([(1.0, 0.5)], SMALL, SMALL * PARTS, 0) is None  # one update tells no error


def test_squares_without_noise_are_no_number_either():
    assert NoiseScale.estimated([(1.0, 1.0)] * 5, SMALL, SMALL * PARTS, 0) is None


def test_the_estimate_is_the_ratio_of_means():
    # S = (5 - 2) / (1/10 - 1/40) = 40, |G|^2 = (40 * 2 - 10 * 5) / 30 = 1
    found = NoiseScale.estimated([(4.0, 1.75), (6.0, 2.25)], 10, 40, 0)
    assert found is not None and found.samples == pytest.approx(40.0)


def test_half_of_what_a_sample_can_teach_is_left_at_the_noise_scale():
    noise = NoiseScale(samples=3000.0)
    assert noise.efficiency(3000) == 0.5
    assert noise.efficiency(0) == 1.0
    assert noise.efficiency(27_000) == pytest.approx(0.1)


def test_what_is_said_of_it():
    assert NoiseScale(samples=3000.0).described == "3.0k samples"
    full = NoiseScale(samples=3000.0, relative_error=0.251, trained=100_000)
    assert full.described == "3.0k samples, give or take 25%, over the first 100.0k of a training"
