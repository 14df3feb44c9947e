"""The Prometheus series of the three processes, from the collectors in their registries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from controller.cronfederatedhpa import CronMetrics
from controller.decision_series import ControllerMetrics
from fedhpa.kube import SYSTEM
from fedhpa.serving import CallerSeries, Peers, ProcessSeries, RowGauge, register_certificate
from fedhpa.serving.fairness import Limits
from metrics_adapter.adapter_series import Telemetry as AdapterTelemetry
from metrics_adapter.prometheus import StoreTelemetry
from metrics_adapter.server import CallerLimits
from testbed.reference.markdown import code, table
from webhook.review_series import Telemetry as WebhookTelemetry

# Every process has them; their meaning is prometheus-client's.
_COMMON: Final = ("process_", "python_")


def series_tables() -> list[str]:
    """A chapter for each process."""
    lines: list[str] = []
    for program, registry in _registries().items():
        rows = [row for collector in _collectors(registry) for row in _rows(collector)]
        lines += [f"## {program}", "", *table(("series", "type", "labels", "meaning"), rows), ""]
    return lines


def _registries() -> dict[str, CollectorRegistry]:
    adapter = AdapterTelemetry(dict).registry
    CallerLimits(Limits(0, 0, 0.0, 1), adapter, clock=SYSTEM.monotonic)
    StoreTelemetry(adapter)
    CallerSeries(adapter)
    register_certificate(adapter, lambda: 0.0)
    webhook = WebhookTelemetry().registry
    register_certificate(webhook, lambda: 0.0)
    controller = CollectorRegistry()
    ControllerMetrics(controller, clock=SYSTEM.monotonic)
    CronMetrics(controller)
    every = CollectorRegistry()
    ProcessSeries(every)
    every.register(Peers())
    return {
        "All processes": every,
        "fedhpa-webhook": webhook,
        "fedhpa-metrics-adapter": adapter,
        "fedhpa-controller": controller,
    }


def _collectors(registry: CollectorRegistry) -> list[Collector]:
    # prometheus-client offers no public way to list them.
    return list(registry._collector_to_names)


def _rows(collector: Collector) -> Iterator[tuple[str, ...]]:
    for family in _families(collector):
        if family.name.startswith(_COMMON):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        # A family that a collector makes has its own labels; the others have the collector's.
        labels: Sequence[str] = (
            family.labels
            if isinstance(family, RowGauge)
            else getattr(family, "_labelnames", ()) or getattr(collector, "_labelnames", ())
        )
        yield code(name), family.type, ", ".join(map(code, labels)), family.documentation


def _families(collector: Collector) -> list[Metric]:
    describe = getattr(collector, "describe", None)
    return list(describe() if describe else collector.collect())
