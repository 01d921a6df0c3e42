"""From where on a walk's forecasts were sure of its end."""

import pytest

from svfm_ros.nodes.demo_figures import sure_from_m


@pytest.mark.parametrize(
    ("shares", "sure_m"),
    [
        ([0.2, 0.8, 0.9, 0.1, 0.0], 2.0),  # what is said after the arrival, of the next walk, does not count
        ([0.9, 0.2, 0.9, 0.9, 0.9], 1.0),  # sure, unsure, sure again
        ([0.9, 0.9, 0.2, 0.9, 0.9], 0.0),  # unsure just before it
        ([0.7, 0.7, 0.7, 0.7, 0.7], 3.0),
    ],
)
def test_only_shares_until_the_arrival_count(shares, sure_m):
    assert sure_from_m([3.0, 2.0, 1.0, -0.2, -0.3], shares) == sure_m


def test_a_walk_that_never_arrives_counts_to_its_end():
    assert sure_from_m([3.0, 2.0], [0.1, 0.9]) == 2.0
    assert sure_from_m([], []) == 0.0
