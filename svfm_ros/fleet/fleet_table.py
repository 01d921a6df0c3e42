"""The table of all homes: one row for each resident, kept as Arrow columns and written as one Parquet file."""

from dataclasses import asdict
from typing import Any

from svfm_ros.fleet.home_figures import HomeFigures
from svfm_ros.fleet.homes import Home

__all__ = ["FleetTable"]

_BATCH = 256  # rows that are kept as Python objects until they become columns


class FleetTable:
    """Rows as they come, in the order of their names at the end."""

    def __init__(self) -> None:
        import pyarrow as pa

        text, count, real = pa.string(), pa.int64(), pa.float64()
        columns = {
            "home": text,
            "resident": text,
            "state": text,
            "reason": text,
            "walks": count,
            "days": count,
            "first_day": text,
            "last_day": text,
            "places": count,
            "held_out_nll": real,
            "held_out_walks": count,
            "share_tv": real,
            "energy_distance_m": real,
            "coverage_50": real,
            "coverage_90": real,
            "wandering": real,
            "wandering_low": real,
            "wandering_high": real,
            "warnings": pa.list_(text),
            "model_id": text,
            "report": text,
        }
        self._schema = pa.schema(columns)
        self._batches: list[Any] = []
        self._rows: list[dict[str, Any]] = []

    def add(self, home: Home, figures: HomeFigures) -> None:
        """A resident of a home that is done."""
        self._add({"home": home.name, "state": "done", "reason": "", **asdict(figures)})

    def add_failed(self, home: Home, reason: str) -> None:
        """A home without results."""
        self._add({"home": home.name, "resident": "", "state": "failed", "reason": reason, "warnings": []})

    def _add(self, row: dict[str, Any]) -> None:
        import pyarrow as pa

        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def table(self) -> Any:
        """All rows (``pyarrow.Table``), by the names of home and resident."""
        import pyarrow as pa

        rest = pa.RecordBatch.from_pylist(self._rows, schema=self._schema)
        return pa.Table.from_batches([*self._batches, rest], schema=self._schema).sort_by(
            [("home", "ascending"), ("resident", "ascending")]
        )

    @staticmethod
    def parquet(table: Any) -> bytes:
        """The Parquet file of a table."""
        import pyarrow as pa
        from pyarrow import parquet

        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink)
        return bytes(sink.getvalue())
