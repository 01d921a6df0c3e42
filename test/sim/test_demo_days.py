"""The walks of the demo: one motion, three hours of the day."""

import numpy as np

from svfm_ros.clock import hours_of_day
from svfm_ros.sim.demo_days import make_walks


def test_parts_follow_each_other_in_place_and_are_hours_apart(tmp_path):
    ticks = []
    walks = make_walks(tmp_path, 0, 1, lambda scans: lambda: ticks.append(scans))
    day, night, live = (walks.parts[n].motion for n in ("day", "night", "live"))
    assert len(ticks) == ticks[0] == sum(walks.scans.values())
    for before, after in ((day, night), (night, live)):
        np.testing.assert_allclose(before.poses[-1], after.poses[0], atol=1e-9)
        assert after.start_ns > before.start_ns + before.duration_s * 1e9
    hours = hours_of_day([m.start_ns for m in (day, night, live)], "Europe/London")
    np.testing.assert_allclose(hours, [10.0, 23.0, 10.0], atol=0.1)
    assert walks.shares["day"] == {"front_door": 0.25, "kitchen": 0.25, "landing": 0.25, "study": 0.25}

    # The truth is known at every scan and nowhere between the parts; places are seen from the first pose.
    stamps = np.array([day.start_ns, night.start_ns, live.start_ns, night.start_ns - 10**12])
    truth = walks.truth_at(stamps)
    assert np.isfinite(truth[:3]).all()
    assert np.isnan(truth[3]).all()
    couch = walks.places.centres[walks.places.names.index("couch")]
    assert np.linalg.norm(couch) < 0.6
