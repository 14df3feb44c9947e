"""The series of a process, summed over labels that do not matter here."""

from __future__ import annotations

import math
from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

# By name of the sample: the value of each label set.
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def read_samples(text: str) -> Samples:
    """Returns the samples of a text in Prometheus' format."""
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return found


def total(every: dict[str, Samples], name: str) -> float:
    """Returns the sum of a sample over all processes and labels."""
    return sum(value for samples in every.values() for value in samples.get(name, {}).values())


def quantile(before: dict[str, Samples], after: dict[str, Samples], name: str, share: float) -> float:
    """Returns the upper bound of the bucket with a quantile of what a histogram counted in between."""
    counts: dict[float, float] = defaultdict(float)
    for sign, every in ((-1, before), (1, after)):
        for samples in every.values():
            for labels, value in samples.get(f"{name}_bucket", {}).items():
                counts[float(dict(labels)["le"])] += sign * value
    wanted = counts.get(math.inf, 0.0) * share
    return next((bound for bound in sorted(counts) if counts[bound] >= wanted > 0), math.nan)
