"""Readers of public tracks."""

from pathlib import Path

import pytest
from benchlib.forecasts.real_walks import as_windows, load_edinburgh, load_eth_ucy, load_thor

from svfm_ros.errors import DataError


def test_real_tracks_are_read(tmp_path: Path) -> None:
    (tmp_path / "eth_ucy").mkdir()
    (tmp_path / "thor").mkdir()
    (tmp_path / "eth_ucy" / "biwi_hotel.txt").write_text("0\t1.0\t0.0\t0.0\n10\t1.0\t0.5\t0.0\n10\t2.0\t9.0\t9.0\n")
    (tmp_path / "thor" / "thor1_exp-1-run-2.csv").write_text("0.0,7,1,1,0,0\n0.4,7,1.5,1,0,0\n0.8,7,2,1,0,0\n")
    (tmp_path / "tracks.01Aug.txt").write_text("% two\nProperties.R1=[1 2];\n TRACK.R1=[[100 0 9];[200 0 18]];\n")
    hotel, thor, forum = load_eth_ucy(tmp_path, "hotel"), load_thor(tmp_path), load_edinburgh(tmp_path)
    assert [len(w.stamps_ns) for w in hotel] == [2]
    assert hotel[0].times_s[-1] == pytest.approx(0.4)
    assert as_windows(thor).xy.shape == (1, 3, 2)
    assert forum[0].xy[-1, 0] - forum[0].xy[0, 0] == pytest.approx(2.47)
    assert forum[0].times_s[-1] == pytest.approx(1.0)
    with pytest.raises(DataError, match="mars"):
        load_eth_ucy(tmp_path, "mars")
    with pytest.raises(DataError, match="cannot read"):
        load_thor(tmp_path / "nowhere")
