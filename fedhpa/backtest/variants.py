"""Variants of an object: fields that are set to other values, as `--vary` names them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.quantity import parse_milli
from fedhpa.backtest.model import primary_metric
from fedhpa.decision import decode_spec

# More rows than that help nobody to choose, and each one is a run.
MAX_VARIANTS: Final = 100
# Rates of a variant are for this time.
RATE_SECONDS: Final = 60

Spec = dict[str, Any]
# A variant: the fields with their values.
Variant = tuple[tuple[str, str], ...]


def _number(field: str, text: str, most: int = 2**31 - 1) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) > most:
        raise ConfigError(f"--vary={field}={text[:50]}: expected a whole number up to {most}")
    return int(text)


def _set_target(spec: Spec, field: str, text: str) -> None:
    index = primary_metric(decode_spec(spec))
    # An object without metrics has the default one.
    metrics = spec.setdefault("metrics", []) or spec["metrics"]
    if not metrics:
        target = {"type": "Utilization", "averageUtilization": 80}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metric = metrics[index]
    target = next(one["target"] for one in metric.values() if isinstance(one, dict) and "target" in one)
    if target.get("averageUtilization") is not None:
        target["averageUtilization"] = _number(field, text)
        return
    name = "averageValue" if target.get("averageValue") is not None else "value"
    try:
        parse_milli(text)
    except InvalidObject as error:
        raise ConfigError(f"--vary={field}={text[:50]}: expected a quantity such as 250m") from error
    target[name] = text


def _set_bound(name: str) -> Callable[[Spec, str, str], None]:
    federated = f"federated{name[0].upper()}{name[1:]}"

    def set_bound(spec: Spec, field: str, text: str) -> None:
        spec[federated if federated in spec else name] = _number(field, text)

    return set_bound


def _rules(spec: Spec, direction: str) -> dict[str, Any]:
    behavior = spec.setdefault("behavior", None) or {}
    spec["behavior"] = behavior
    rules: dict[str, Any] = behavior.get(direction) or {}
    behavior[direction] = rules
    return rules


def _set_window(direction: str) -> Callable[[Spec, str, str], None]:
    def set_window(spec: Spec, field: str, text: str) -> None:
        _rules(spec, direction)["stabilizationWindowSeconds"] = _number(field, text, 3600)

    return set_window


def _set_rate(direction: str, kind: str) -> Callable[[Spec, str, str], None]:
    def set_rate(spec: Spec, field: str, text: str) -> None:
        policy = {"type": kind, "value": _number(field, text), "periodSeconds": RATE_SECONDS}
        _rules(spec, direction)["policies"] = [policy]

    return set_rate


FIELDS: Final[Mapping[str, Callable[[Spec, str, str], None]]] = {
    "target": _set_target,
    "minReplicas": _set_bound("minReplicas"),
    "maxReplicas": _set_bound("maxReplicas"),
    "scaleUp.window": _set_window("scaleUp"),
    "scaleUp.percent": _set_rate("scaleUp", "Percent"),
    "scaleUp.pods": _set_rate("scaleUp", "Pods"),
    "scaleDown.window": _set_window("scaleDown"),
    "scaleDown.percent": _set_rate("scaleDown", "Percent"),
    "scaleDown.pods": _set_rate("scaleDown", "Pods"),
}


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
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MAX_VARIANTS:
        raise ConfigError(f"--vary: {count} combinations, expected at most {MAX_VARIANTS}")
    return [tuple(combination) for combination in itertools.product(*axes)] if axes else []


def varied(raw: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """Returns a FederatedHPA with the fields of a variant set. Raises ConfigError for a value of no use."""
    changed = copy.deepcopy(dict(raw))
    spec = changed["spec"] = dict(changed.get("spec") or {})
    for field, value in variant:
        FIELDS[field](spec, field, value)
    return changed


def variant_name(variant: Variant) -> str:
    """Returns the name of a variant in tables."""
    return " ".join(f"{field}={value}" for field, value in variant)
