"""Makes the example recordings in examples/recordings: `python -m testbed.reference.recordings`.

Each has a demand that is made up from its shape, and the sizes that the object in it would have had. The
workload runs in two clusters. Times are UTC, and every recording begins on a Monday.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from fedhpa.backtest import (
    ClusterSeries,
    Model,
    Options,
    Recording,
    encode_recording,
    model_of,
    recorded_spec,
    scaling_object,
    simulate,
)

FOLDER: Final = Path(__file__).resolve().parents[2] / "examples" / "recordings"
MONDAY: Final = 1_772_409_600.0  # 2026-03-02
STEP: Final = 60.0
DAY: Final = 86_400
CLUSTERS: Final = ("member1", "member2")
# Milli-cores. Small differences of the demand are left out, because they only make the files larger.
GRAIN: Final = 20
REQUEST: Final = 1000

# The demand in milli-cores by day of the recording and hour.
Shape = Callable[[int, float], float]


def office_day(day: int, hour: float) -> float:
    """Two steep ramps on each working day, when people begin and when they come back from lunch."""
    base = 1_500.0
    if day % 7 >= 5:
        return base
    morning = _ramp(hour, 8.0, 0.15) - _ramp(hour, 12.0, 0.3)
    afternoon = _ramp(hour, 13.0, 0.15) - _ramp(hour, 17.5, 1.0)
    return base + 16_000.0 * (morning + 0.9 * afternoon)


def sale(day: int, hour: float) -> float:
    """A shop with an evening peak, and sales that triple it on the evenings of Thursday."""
    evening = 3_000.0 + 5_000.0 * math.exp(-(((hour - 19.5) / 3.0) ** 2))
    is_sale = day % 7 == 3
    return evening + (14_000.0 * (_ramp(hour, 18.0, 0.25) - _ramp(hour, 22.0, 0.5)) if is_sale else 0.0)


def batch_nights(day: int, hour: float) -> float:
    """A quiet service with batches at one o'clock every night, which take longer at the end of a week."""
    length = 2.0 + 0.3 * (day % 7)
    return 2_000.0 + 20_000.0 * (_ramp(hour, 1.0, 0.1) - _ramp(hour, 1.0 + length, 0.1))


SHAPES: Final[dict[str, tuple[Shape, int, dict[str, Any]]]] = {
    "office-day": (office_day, 28, {"minReplicas": 3, "maxReplicas": 60, "target": 55}),
    "sale": (sale, 14, {"minReplicas": 10, "maxReplicas": 80, "target": 50}),
    "batch-nights": (batch_nights, 14, {"minReplicas": 8, "maxReplicas": 80, "target": 45}),
}


def _ramp(hour: float, begins: float, hours: float) -> float:
    """0 before, 1 after, and a straight line for `hours` between."""
    return min(max((hour - begins) / hours, 0.0), 1.0)


def manifest(name: str) -> dict[str, Any]:
    """Returns the object of an example recording."""
    _, _, fields = SHAPES[name]
    target = {"type": "Utilization", "averageUtilization": fields["target"]}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": fields["minReplicas"],
            "maxReplicas": fields["maxReplicas"],
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def demand(name: str, days: int | None = None, seed: int = 1) -> list[int]:
    """Returns the demand of all clusters by step, in milli-cores. Noise and days differ with the seed."""
    shape, most, _ = SHAPES[name]
    chance = random.Random(f"{name} {seed}")
    found, noise = [], 0.0
    for day in range(most if days is None else days):
        scale = 1.0 + chance.gauss(0.0, 0.03)
        for step in range(int(DAY / STEP)):
            noise = 0.9 * noise + chance.gauss(0.0, 0.015)
            value = shape(day, step * STEP / 3600) * scale * (1.0 + noise)
            found.append(max(round(value / GRAIN) * GRAIN, 0))
    return found


def made(name: str, days: int | None = None, seed: int = 1) -> Recording:
    """Returns an example recording, or one like it with other days and another seed."""
    total = demand(name, days, seed)
    raw = manifest(name)
    count = len(total)
    first = [value // len(CLUSTERS) // GRAIN * GRAIN for value in total]
    parts = (first, [whole - part for whole, part in zip(total, first, strict=True)])
    least = max(raw["spec"]["minReplicas"], 2)
    sizes = (least - least // 2, least // 2)
    clusters = [
        ClusterSeries(
            name=cluster,
            replicas=[size] * count,
            ready=[size] * count,
            demand={"cpu": list(part)},
            request={"cpu": [REQUEST] * count},
            limit={"cpu": [REQUEST] * count},
        )
        for cluster, size, part in zip(CLUSTERS, sizes, parts, strict=True)
    ]
    wanted = Recording(
        version=1,
        namespace="shop",
        name="web",
        start=MONDAY,
        step=STEP,
        clusters=clusters,
        spec=recorded_spec(raw["spec"]),
    )
    hpa = scaling_object(raw)
    model: Model = model_of(wanted, hpa.spec, Options(pod_start=40.0))[0]
    run = simulate("made", wanted, hpa, model)
    ran = [
        msgspec.structs.replace(one, replicas=list(sizes.desired), ready=list(sizes.ready))
        for one, sizes in zip(clusters, run.clusters, strict=True)
    ]
    return msgspec.structs.replace(wanted, clusters=ran)


def main() -> None:
    """Writes all files."""
    FOLDER.mkdir(exist_ok=True)
    for name in SHAPES:
        (FOLDER / f"{name}.json.gz").write_bytes(encode_recording(made(name), compressed=True))


if __name__ == "__main__":
    main()
