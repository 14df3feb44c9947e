"""custom.metrics.k8s.io, v1beta1 and v1beta2, over all members.

Each member is asked in the best version it serves. Values of pods stay one a pod and cluster, for pods of
different clusters may share a name; those of other objects are merged by object and labels.
"""

from __future__ import annotations

from aiohttp import web

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_field_selector, parse_selector
from fedhpa.members.metrics import CUSTOM, CUSTOM_VERSIONS
from fedhpa.serving.status import status_response
from metrics_adapter.members.gather import Gathered, MembersSource
from metrics_adapter.members.values import AGGREGATIONS, merged, side_by_side, values_json
from metrics_adapter.members.wanted import ALL, Selectors, Wanted, read_path
from metrics_adapter.server import answers
from metrics_adapter.server.negotiation import choose_form


class CustomApi:
    """GET of values by name or by selector."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source

    def routes(self) -> list[web.RouteDef]:
        """All paths below the group's versions."""
        below = "{rest:.+}"
        return [web.get(f"/apis/{CUSTOM}/{version}/{below}", self._get) for version in CUSTOM_VERSIONS]

    async def _get(self, request: web.Request) -> web.StreamResponse:
        wanted = read_path(request.rel_url.raw_path)
        if wanted is None:
            return status_response(400, "invalid request path")
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return answers.not_acceptable()
        selectors = _selectors(request, wanted)
        aggregation = aggregation_of(request)
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal

        # Callers were let in for what is below the one namespace: a tenant may not read of others.
        gathered = (
            Gathered((), {}) if wanted.beside else await self._source.custom(wanted, selectors, cluster)
        )
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        pods = wanted.resource == "pods"
        how = aggregation or gathered.aggregation or "Sum"
        values = side_by_side(gathered.answers) if pods else merged(gathered.answers, how)
        if not values:
            message = f"the server could not find the metric {wanted.metric} for {wanted.resource}"
            return status_response(404, message, headers=answers.warning_headers(gathered))
        version = request.path.split("/")[3]
        # There are no columns for values; who asks for a Table gets the list, as from Karmada.
        return answers.respond(values_json(values, version), form, gathered)


def _selectors(request: web.Request, wanted: Wanted) -> Selectors:
    """What is selected. Raises InvalidObject for what cannot be selected by."""
    query = request.query
    field_text = query.get("fieldSelector", "")
    if field_text and parse_field_selector(field_text).required("metadata.name") != wanted.name:
        raise InvalidObject("fieldSelector metadata.name doesn't match requested name")
    objects = parse_selector(query.get("labelSelector", ""))
    metric = parse_selector(query.get("metricLabelSelector", ""))
    # Who is named is not selected.
    return Selectors(objects if wanted.name == ALL else Selector(), metric)


def aggregation_of(request: web.Request) -> str:
    """How a caller wants the clusters' values put together; "" if it does not say. Raises InvalidObject."""
    wanted = request.query.get("aggregation", "")
    if "aggregation" in request.query and wanted not in AGGREGATIONS:
        raise InvalidObject(f"aggregation {wanted!r} is not one of {', '.join(AGGREGATIONS)}")
    return wanted
