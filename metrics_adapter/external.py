"""external.metrics.k8s.io/v1beta1 over all members: every member's values, each with its cluster as a label.

Nothing is added up here: clients do, and who wants one cluster's values selects by the label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from aiohttp import web

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.quantity import Quantity
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.api.times import parse_time
from fedhpa.kube.responses import NOT_FOUND
from fedhpa.members.member import Member
from fedhpa.members.metrics import EXTERNAL, EXTERNAL_VERSION, NotServed, external_path, external_values
from fedhpa.serving.status import status_response
from metrics_adapter import answers
from metrics_adapter.gather import Gathered, MembersSource, knows_none
from metrics_adapter.negotiation import TRUE_WORDS, Form, choose_form
from metrics_adapter.paths import path_parts
from metrics_adapter.remembered import Remembered
from metrics_adapter.values import time_json, whole_seconds

CLUSTER_LABEL = "cluster"
# Where a member's own label of that name goes, as Prometheus does with labels that it overrides.
EXPORTED_LABEL = "exported_cluster"
# namespaces/NAMESPACE/METRIC
PARTS = 3


@dataclass(frozen=True)
class Series:
    """One value of a metric, as a member told it."""

    metric: str
    labels: Mapping[str, str]
    timestamp: float | None
    window: int | None
    amount: Quantity


@dataclass(frozen=True)
class Told:
    """What one member said; None: it serves external metrics and does not know this one."""

    cluster: str
    series: Sequence[Series] | None


def decode_series(body: bytes) -> tuple[Series, ...]:
    """The items of a member's ExternalMetricValueList; ValueError or InvalidObject for unusable ones."""
    return tuple(
        Series(
            item.metricName,
            item.metricLabels or {},
            parse_time(item.timestamp),
            whole_seconds(item.window, f"items[{index}].window"),
            Quantity.parse(item.value),
        )
        for index, item in enumerate(external_values(body))
    )


class ExternalApi:
    """GET of all values of a metric in a namespace."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source
        self._remembered = Remembered()

    def routes(self) -> list[web.RouteDef]:
        """The one path of the version."""
        return [web.get(f"/apis/{EXTERNAL_VERSION}/namespaces/{{rest:.+}}", self._get)]

    async def _get(self, request: web.Request) -> web.StreamResponse:
        parts = path_parts(request.rel_url.raw_path)
        if parts is None or len(parts) != PARTS:
            return status_response(400, "invalid request path")
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return answers.not_acceptable()
        if request.query.get("watch", "").lower() in TRUE_WORDS:
            return answers.no_watch(EXTERNAL, "*")
        selector = parse_selector(request.query.get("labelSelector", ""))
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        wanted, params = _split(selector)

        gathered = await self._ask(
            external_path(*parts[1:]), params, lambda name: cluster in (None, name) and wanted(name)
        )
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        if all(told.series is None for told in gathered.answers):
            message = f"the server could not find the external metric {parts[2]}"
            return status_response(404, message, headers=answers.warning_headers(gathered))
        body = list_json(gathered.answers, parts[2])
        return answers.respond(body, Form.YAML if form is Form.YAML else Form.JSON, gathered)

    async def _ask(
        self, path: str, params: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> Gathered[Told]:
        async def series(member: Member) -> Sequence[Series] | None:
            try:
                return await self._source.fetch(member, path, params, decode_series)
            except FedHPAError as error:
                cause = error.__cause__
                if knows_none(error):
                    return None
                if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                    raise NotServed(f"it does not serve {EXTERNAL_VERSION}") from error
                raise

        async def ask(member: Member) -> Told:
            found = await self._remembered.told(member.name, path, params, series(member))
            return Told(member.name, found)

        return await self._source.gather(EXTERNAL, ask, wanted)


def _split(selector: Selector) -> tuple[Callable[[str], bool], dict[str, str]]:
    """Whom to ask, by what is required of the cluster, and the query with all else that is required."""
    here = Selector([r for r in selector.requirements if r.key == CLUSTER_LABEL])
    there = Selector([r for r in selector.requirements if r.key != CLUSTER_LABEL])
    params = {"labelSelector": str(there)} if there.requirements else {}
    return lambda cluster: here.matches({CLUSTER_LABEL: cluster}), params


def list_json(told: Sequence[Told], metric: str) -> bytes:
    """The ExternalMetricValueList of what members said, in their order; each one's sorted by labels."""
    items = [
        _item(series, labels, metric)
        for answer in told
        for labels, series in sorted(
            ((_labels(series, answer.cluster), series) for series in answer.series or ()),
            key=lambda pair: sorted(pair[0].items()),
        )
    ]
    return msgspec.json.encode(
        {"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL_VERSION, "metadata": {}, "items": items}
    )


def _labels(series: Series, cluster: str) -> dict[str, str]:
    labels = dict(series.labels)
    if CLUSTER_LABEL in labels:
        labels.setdefault(EXPORTED_LABEL, labels[CLUSTER_LABEL])
    # Whatever a member says, its values are its own.
    labels[CLUSTER_LABEL] = cluster
    return labels


def _item(series: Series, labels: Mapping[str, str], metric: str) -> dict[str, object]:
    window = {} if series.window is None else {"window": series.window}
    return {
        "metricName": series.metric or metric,
        "metricLabels": labels,
        "timestamp": time_json(series.timestamp),
        **window,
        "value": str(series.amount),
    }
