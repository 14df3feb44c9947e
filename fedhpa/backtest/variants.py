"""Variants of an object: fields that are set to other values, as `--vary` names them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedhpa.api.default_values import default_metrics
from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.quantity import format_milli, parse_milli
from fedhpa.backtest.model import primary_metric
from fedhpa.decision import decode_spec

# More rows than that help nobody to choose, and each one is a run.
MAX_VARIANTS: Final = 100
# Rates of a variant are for this time.
RATE_SECONDS: Final = 60
# Targets far apart: per cents of a utilization, and factors of a quantity.
COARSE: Final = ("40", "50", "60", "70", "80", "90")
FACTORS: Final = (0.5, 0.7, 1.2, 1.5, 2.0, 3.0)

Spec = dict[str, Any]
# A variant: the fields with their values.
Variant = tuple[tuple[str, str], ...]


def _number(field: str, text: str, most: int = 2**31 - 1) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) > most:
        raise ConfigError(f"--vary={field}={text[:50]}: expected a whole number up to {most}")
    return int(text)


def _set(spec: Spec, field: str, text: str) -> None:
    """Sets a field of FIELDS. Raises ConfigError for a value of no use."""
    direction, _, what = field.partition(".")
    if field == "target":
        _set_target(spec, text)
    elif not what:
        federated = f"federated{field[0].upper()}{field[1:]}"
        spec[federated if federated in spec else field] = _number(field, text)
    else:
        behavior = spec["behavior"] = spec.get("behavior") or {}
        rules = behavior[direction] = behavior.get(direction) or {}
        if what == "window":
            rules["stabilizationWindowSeconds"] = _number(field, text, 3600)
        else:
            policy = {"type": what.title(), "value": _number(field, text), "periodSeconds": RATE_SECONDS}
            rules["policies"] = [policy]


def _set_target(spec: Spec, text: str) -> None:
    index = primary_metric(decode_spec(spec))
    # An object without metrics has the default one.
    metrics = spec["metrics"] = spec.get("metrics") or default_metrics()
    target = next(
        one["target"] for one in metrics[index].values() if isinstance(one, dict) and "target" in one
    )
    if target.get("averageUtilization") is not None:
        target["averageUtilization"] = _number("target", text)
        return
    name = "averageValue" if target.get("averageValue") is not None else "value"
    try:
        parse_milli(text)
    except InvalidObject as error:
        raise ConfigError(f"--vary=target={text[:50]}: expected a quantity such as 250m") from error
    target[name] = text


FIELDS: Final = (
    "target",
    "minReplicas",
    "maxReplicas",
    *(f"{way}.{what}" for way in ("scaleUp", "scaleDown") for what in ("window", "percent", "pods")),
)


def parse_variants(texts: Sequence[str]) -> list[Variant]:
    """Returns every combination of options such as `target=50,60`. Raises ConfigError."""
    axes: list[list[tuple[str, str]]] = []
    for text in texts:
        field, equals, values = text.partition("=")
        if not equals or field not in FIELDS:
            raise ConfigError(
                f"--vary={text[:100]}: expected FIELD=VALUE,... with one of {', '.join(FIELDS)}"
            )
        if any(field == axis[0][0] for axis in axes):
            raise ConfigError(
                f"--vary={text[:100]}: {field} stands there twice: write all values in one option"
            )
        found = [value.strip() for value in values.split(",")]
        if not all(found) or len(set(found)) < len(found):
            raise ConfigError(f"--vary={text[:100]}: expected different values, separated by commas")
        axes.append([(field, value) for value in found])
    count = math.prod(map(len, axes))
    if count > MAX_VARIANTS:
        raise ConfigError(f"--vary: {count} combinations, expected at most {MAX_VARIANTS}")
    return [tuple(combination) for combination in itertools.product(*axes)] if axes else []


def varied(raw: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """Returns a FederatedHPA with the fields of a variant set. Raises ConfigError for a value of no use."""
    changed = copy.deepcopy(dict(raw))
    spec = changed["spec"] = dict(changed.get("spec") or {})
    for field, value in variant:
        _set(spec, field, value)
    return changed


def variant_name(variant: Variant) -> str:
    """Returns the name of a variant in tables."""
    return " ".join(f"{field}={value}" for field, value in variant)


class Grid:
    """The variants that a search tries. `present` has the values of the object by field, for people."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        hpa = decode_spec(spec)
        metric = hpa.metrics[primary_metric(hpa)]
        self._is_utilization = metric.average_value is None and metric.average_utilization is not None
        milli = metric.value if metric.average_value is None else metric.average_value
        target = metric.average_utilization if self._is_utilization else format_milli(milli or 0)
        self._least, self._most = hpa.min_replicas, hpa.max_replicas
        self.present = {
            "target": str(target),
            "minReplicas": str(self._least),
            "maxReplicas": str(self._most),
        }
        for direction in ("scaleUp", "scaleDown"):
            rules = (spec.get("behavior") or {}).get(direction) or {}
            rates = ", ".join(f"{one['value']} {one['type']}" for one in rules.get("policies") or ())
            self.present |= {
                f"{direction}.window": str(rules.get("stabilizationWindowSeconds", "default")),
                f"{direction}.percent": rates or "default",
                f"{direction}.pods": rates or "default",
            }

    def _set(self, variant: Variant, field: str, value: str) -> Variant:
        """Returns the variant with one field set. A value that the object has already is no change."""
        fields = dict(variant) | {field: value}
        if value == self.present[field]:
            del fields[field]
        return tuple(sorted(fields.items(), key=lambda one: FIELDS.index(one[0])))

    def _targets(self, value: str, factors: Sequence[float]) -> list[str]:
        """Returns targets near a value: whole per cents, or quantities."""
        if self._is_utilization:
            return [str(min(max(round(int(value) * factor), 1), 100)) for factor in factors]
        return [format_milli(max(round(parse_milli(value) * factor), 1)) for factor in factors]

    def coarse(self, best: Variant) -> list[Variant]:
        """Returns targets and minima far apart."""
        target, least = self.present["target"], self._least
        minima = {least, math.ceil(least / 2), min(math.ceil(least * 1.5), self._most)}
        # The whole range of a utilization, so that a poor object is not only brought nearer to a good one.
        wide = COARSE if self._is_utilization else self._targets(target, FACTORS)
        return [
            self._set(self._set(best, "target", one), "minReplicas", str(max(minimum, 1)))
            for one in dict.fromkeys((target, *wide))
            for minimum in sorted(minima)
        ]

    def windows(self, best: Variant) -> list[Variant]:
        """Returns the best one with other windows and rates."""
        found = [self._set(best, "scaleDown.window", value) for value in ("60", "180", "600")]
        found += [self._set(best, "scaleUp.percent", value) for value in ("50", "300")]
        found += [self._set(best, "scaleDown.percent", value) for value in ("10", "50")]
        return [*found, self._set(best, "scaleUp.window", "60")]

    def near(self, best: Variant) -> list[Variant]:
        """Returns targets and minima near the best one."""
        fields = self.present | dict(best)
        least = int(fields["minReplicas"])
        found = [
            self._set(best, "target", one)
            for one in self._targets(fields["target"], (0.92, 0.96, 1.04, 1.08))
        ]
        minima = sorted({math.ceil(least * 0.7), least - 1, least + 1})
        return found + [self._set(best, "minReplicas", str(minimum)) for minimum in minima if minimum >= 1]
