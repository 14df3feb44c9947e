"""A recording as CSV: one line for each time and cluster, so that anybody can make one.

The columns are `time` (Unix seconds or RFC 3339), `cluster`, `replicas`, `ready`, and one for each metric
with the total of its pods, such as `cpu`. `request.cpu` and `limit.cpu` are those of one pod. Amounts are
Kubernetes quantities. An empty cell, or a line that is not there, is a gap.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.quantity import parse_milli
from fedhpa.api.times import parse_time
from fedhpa.backtest.recording import (
    MAX_CLUSTERS,
    MAX_METRICS,
    MAX_STEPS,
    VERSION,
    Amounts,
    ClusterSeries,
    Recording,
    check,
)

_KEYS: Final = ("time", "cluster")
_REQUIRED: Final = (*_KEYS, "replicas", "ready")
_REQUEST, _LIMIT = "request.", "limit."
MAX_LINES: Final = 2_000_000
MAX_CELL: Final = 300

# Time, cluster, and the values by column.
Row = tuple[float, str, dict[str, int | None]]


def decode_csv(content: bytes, place: str) -> Recording:
    """Returns the recording in CSV. Raises ConfigError that begins with `place` and names line and column."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: it is neither JSON nor UTF-8 text") from error
    reader = csv.DictReader(io.StringIO(text), restkey="", restval="")
    columns = list(reader.fieldnames or ())
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise ConfigError(f"{place}: it is no recording: expected JSON, or CSV with the column {missing[0]}")
    metrics = [name for name in columns if name not in _REQUIRED and not name.startswith((_REQUEST, _LIMIT))]
    if not 0 < len(metrics) <= MAX_METRICS:
        raise ConfigError(f"{place}: expected 1 to {MAX_METRICS} columns of metrics, got {len(metrics)}")
    try:
        rows = list(_rows(reader, columns, place))
    except csv.Error as error:
        raise ConfigError(f"{place}: line {reader.line_num}: {error}") from error
    recording = _recording(rows, metrics, [name for name in columns if name not in _REQUIRED], place)
    check(recording, place)
    return recording


def _rows(reader: csv.DictReader[str], columns: list[str], place: str) -> Iterator[Row]:
    for cells in reader:
        where = f"{place}: line {reader.line_num}"
        if reader.line_num > MAX_LINES:
            raise ConfigError(f"{where}: more than {MAX_LINES} lines: write JSON, or fewer days")
        if "" in cells:
            raise ConfigError(f"{where}: more cells than columns")
        if any(len(text or "") > MAX_CELL for text in cells.values()):
            raise ConfigError(f"{where}: a cell has more than {MAX_CELL} characters")
        at = _time(cells["time"], f"{where}: time")
        numbers = {
            name: _number(name, cells[name], f"{where}: {name}") for name in columns if name not in _KEYS
        }
        yield at, cells["cluster"].strip(), numbers


def _time(text: str, where: str) -> float:
    try:
        at = float(text) if text[:1].isdigit() and "T" not in text else parse_time(text.strip())
    except (ValueError, InvalidObject):
        at = None
    if at is None or not 0 <= at < 3.2e10:
        raise ConfigError(f"{where}: expected Unix seconds or RFC 3339, got {text[:50]!r}")
    return at


def _number(name: str, cell: str, where: str) -> int | None:
    """Returns a number of pods, or an amount in milli-units; None for an empty cell."""
    text = cell.strip()
    if not text:
        return None
    if name in _REQUIRED:
        if not text.isdecimal() or len(text) > 10:
            raise ConfigError(f"{where}: expected a whole number, got {text[:50]!r}")
        return int(text)
    try:
        milli = parse_milli(text)
    except InvalidObject as error:
        raise ConfigError(f"{where}: expected a quantity, got {text[:50]!r}") from error
    if milli < 0:
        raise ConfigError(f"{where}: expected no negative quantity, got {text[:50]!r}")
    return milli


def _recording(rows: list[Row], metrics: list[str], amounts: list[str], place: str) -> Recording:
    times = sorted({at for at, _, _ in rows})
    clusters = sorted({cluster for _, cluster, _ in rows})
    if len(times) < 2:
        raise ConfigError(f"{place}: expected at least two times, got {len(times)}")
    if len(clusters) > MAX_CLUSTERS:
        raise ConfigError(f"{place}: {len(clusters)} clusters, expected at most {MAX_CLUSTERS}")
    start = times[0]
    step = min(after - before for before, after in pairwise(times))
    count = round((times[-1] - start) / step) + 1
    if count > MAX_STEPS or count * len(clusters) > 20 * MAX_LINES:
        raise ConfigError(
            f"{place}: {count} steps of {step:g} s, which is too many: expected equal distances"
        )
    columns: dict[str, dict[str, Amounts]] = {
        cluster: {name: [None] * count for name in ("replicas", "ready", *amounts)} for cluster in clusters
    }
    for at, cluster, numbers in rows:
        index = round((at - start) / step)
        for name, value in numbers.items():
            columns[cluster][name][index] = value
    return Recording(
        version=VERSION,
        start=start,
        step=step,
        clusters=[_cluster(name, columns[name], metrics) for name in clusters],
    )


def _cluster(name: str, columns: Mapping[str, Amounts], metrics: list[str]) -> ClusterSeries:
    demand, request, limit = (
        {metric: columns[start + metric] for metric in metrics if start + metric in columns}
        for start in ("", _REQUEST, _LIMIT)
    )
    return ClusterSeries(name, columns["replicas"], columns["ready"], demand, request, limit)
