"""The part of a metric type in admission."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedhpa.api.fielderror import FieldError
from fedhpa.api.meta import LabelSelector


def _no_selector(_: Any) -> None:
    return None


class MetricRules(NamedTuple):
    """The rules of admission for the source of a metric of one type.

    The functions take the source, an object of the row's model. `validate` yields the errors of a source at a
    path. `identity` returns values that are equal for two metrics that read the same series. `selector`
    returns the selector of the series. `strict_target` is True if `validate` refuses a target that lacks the
    field of its type. Otherwise admission warns about such a target.
    """

    validate: Callable[[Any, str], Iterator[FieldError]]
    identity: Callable[[Any], tuple[object, ...]]
    selector: Callable[[Any], LabelSelector | None] = _no_selector
    strict_target: bool = False
