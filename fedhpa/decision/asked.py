"""By what a Pods, Object or External metric is asked for: entries that ask the same share the answer."""

from __future__ import annotations

import msgspec

from fedhpa.decision.spec.federatedhpa import MetricSpec

_encoder = msgspec.json.Encoder(order="deterministic")


def asked_for(spec: MetricSpec) -> str:
    """A key of type, metric, selector and object; target and aggregation change nothing that is asked."""
    return _encoder.encode((spec.type, spec.name, spec.selector, spec.described_object)).decode()
