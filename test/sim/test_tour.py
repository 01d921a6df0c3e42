"""A tour from stop to stop."""

import itertools

import numpy as np

from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import simulate_tour


def test_each_walk_begins_where_the_last_one_ended_and_not_before():
    stops = ["couch", "kitchen", "couch", "landing"]
    house = load_house("home")
    walks = simulate_tour(house, stops, seed=3, every_s=15.0, start_hour=10.0)
    assert [(w.origin, w.destination) for w in walks] == list(itertools.pairwise(stops))
    for before, after in itertools.pairwise(walks):
        np.testing.assert_allclose(before.walk.xy[-1], after.walk.xy[0], atol=0.05)
        assert after.walk.stamps_ns[0] - before.walk.stamps_ns[0] >= 15e9
    assert house.places.assign(walks[0].walk.xy[-1]) == house.places.names.index("kitchen")
