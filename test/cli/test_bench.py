"""The page of results: a run replaces what it measured and nothing else."""

from svfm_ros.cli.bench import Section, updated

SPEED = Section(
    "speed", "How fast.", {"checks": [{"name": "times faster", "value": 3.21987, "target": ">= 3", "ok": True}]}
)
PEERS = Section(
    "peers",
    "Who else.",
    {
        "checks": [],
        "lines": [{"who": "us", "ms": 1.5}, {"who": "a|b", "ms": 4}],
        "nested": [{"deep": {"er": 1}}],
        "in": {"side": [{"x": 7}]},
    },
)


def test_checks_and_records_become_tables():
    page = updated("", [SPEED, PEERS])
    assert "| times faster | 3.22 | >= 3 | yes |" in page
    assert "| us | 1.5 |" in page
    assert "| a\\|b | 4 |" in page
    assert "nested" not in page
    assert "in, side:\n\n| x |\n| --- |\n| 7 |" in page
    assert page.index("## peers") < page.index("## speed")
    assert "commit" in page


def test_a_run_leaves_the_other_sections_alone():
    before = updated("# Results\n\nold words\n", [SPEED, PEERS])
    slower = Section(
        "speed", "How fast.", {"checks": [{"name": "times faster", "value": 2.0, "target": ">= 3", "ok": False}]}
    )
    after = updated(before, [slower])
    assert "| times faster | 2 | >= 3 | **no** |" in after
    assert "3.22" not in after
    assert "old words" not in after
    assert after.count("## peers") == 1
    assert (
        after[after.index("## peers") : after.index("## speed")]
        == before[before.index("## peers") : before.index("## speed")]
    )
    assert updated(after, []) == after


def test_standard_errors_stand_beside_their_figures():
    checks = [{"name": "score", "value": 0.5, "target": "<= 1", "ok": True, "error": 0.0123}]
    rows = [{"who": "us", "m": 0.5, "m_error": 0.02}, {"who": "them", "m": 0.75}]
    page = updated("", [Section("scores", "How good.", {"checks": checks, "rows": rows})])
    assert "| score | 0.5 ± 0.012 | <= 1 | yes |" in page
    assert "| who | m |" in page
    assert "| us | 0.5 ± 0.02 |" in page
    assert "| them | 0.75 |" in page
