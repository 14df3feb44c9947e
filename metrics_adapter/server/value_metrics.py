"""custom.metrics.k8s.io and external.metrics.k8s.io over all members.

Custom metrics are requested from each member in the best version that it serves. Values of pods are listed
for each pod and cluster, because pods of different clusters may share a name. Values of other objects are
merged by object and labels.

External metrics have the values of all members, each with a cluster label, by which a client selects one
cluster's. Values are added up only if `?aggregation=` or a rule says how.
"""

from __future__ import annotations

from aiohttp import web

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_field_selector, parse_selector
from fedhpa.members.metrics import CUSTOM, EXTERNAL, EXTERNAL_VERSION
from fedhpa.serving.error_responses import status_response
from metrics_adapter.apis import SERVED_VERSIONS
from metrics_adapter.members.custom_metrics import AGGREGATIONS, encode_values, merge_values, sort_values
from metrics_adapter.members.external_metrics import CLUSTER_LABEL, encode_external_values
from metrics_adapter.members.queries import ALL, CustomMetricQuery, MetricSelectors
from metrics_adapter.members.source import ClusterFilter, Gathered, MembersSource
from metrics_adapter.pace import in_thread_above
from metrics_adapter.server import responses
from metrics_adapter.server.paths import custom_query, external_query

# Values. One costs 10 us, so longer lists are encoded in a thread.
SHORT_LIST = 1000


class MetricValuesApi:
    """The handlers of both APIs."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of all versions."""
        custom = [f"/apis/{CUSTOM}/{version}/{{rest:.+}}" for version in SERVED_VERSIONS[CUSTOM]]
        external = f"/apis/{EXTERNAL_VERSION}/namespaces/{{rest:.+}}"
        return [*(web.get(path, self._custom) for path in custom), web.get(external, self._external)]

    async def _custom(self, request: web.Request) -> web.StreamResponse:
        query = custom_query(request.rel_url.raw_path)
        if query is None:
            raise responses.no_resource()
        accepted = responses.accepted_form(request)
        responses.check_numbers(request.query)
        selectors = _selectors(request, query)
        aggregation = aggregation_of(request)
        cluster = responses.cluster_of(request, self._source)

        # Access was reviewed for the namespace of the path, so a metric of another namespace is not shown.
        gathered = (
            Gathered((), {})
            if query.is_of_other_namespace
            else await self._source.custom(query, selectors, cluster)
        )
        responses.check_answered(gathered)
        # A member that knows the metric, and no value of it, is a member without matching objects.
        known = [values for values in gathered.answers if values is not None]
        pods = query.resource == "pods"
        how = aggregation or gathered.aggregation or "Sum"
        version = request.path.split("/")[3]

        def encode() -> bytes:
            values = sort_values(known) if pods else merge_values(known, how)
            return encode_values(values, version)

        if not known or (query.name != ALL and not any(known)):
            message = f"the server could not find the metric {query.metric} for {query.resource}"
            return status_response(404, message, headers=responses.warning_headers(gathered))
        body = await in_thread_above(SHORT_LIST, sum(map(len, known)), encode)
        # Values have no Table form. A client that requests a Table gets the list, as from Karmada.
        return await responses.metrics_response(body, accepted.form, gathered)

    async def _external(self, request: web.Request) -> web.StreamResponse:
        query = external_query(request.rel_url.raw_path)
        if query is None:
            raise responses.no_resource()
        accepted = responses.accepted_form(request)
        responses.check_watch(request, EXTERNAL, "*")
        responses.check_list_options(request.query)
        if request.query.get("fieldSelector"):
            # Values have no fields to select by, and returning all of them would be a wrong answer.
            return status_response(400, "fieldSelector: external metrics are selected by labelSelector alone")
        selector = parse_selector(request.query.get("labelSelector", ""))
        cluster = responses.cluster_of(request, self._source)
        selects, rest = split_selector(selector)
        aggregation = aggregation_of(request)

        namespace, metric = query
        gathered = await self._source.external(
            namespace, metric, rest, lambda name: cluster in (None, name) and selects(name)
        )
        responses.check_answered(gathered)
        if all(answer.values is None for answer in gathered.answers):
            message = f"the server could not find the external metric {metric}"
            return status_response(404, message, headers=responses.warning_headers(gathered))
        how = aggregation or gathered.aggregation
        body = await in_thread_above(
            SHORT_LIST,
            sum(len(answer.values or ()) for answer in gathered.answers),
            lambda: encode_external_values(gathered.answers, metric, how),
        )
        return await responses.metrics_response(body, accepted.form, gathered)


def _selectors(request: web.Request, query: CustomMetricQuery) -> MetricSelectors:
    """Returns the selectors of a request. Raises InvalidObject for an invalid one."""
    params = request.query
    field_text = params.get("fieldSelector", "")
    if field_text and parse_field_selector(field_text).required("metadata.name") != query.name:
        raise InvalidObject("fieldSelector metadata.name doesn't match requested name")
    objects = parse_selector(params.get("labelSelector", ""))
    metric = parse_selector(params.get("metricLabelSelector", ""))
    # labelSelector selects among objects, so it has no effect on a request for one object by name.
    return MetricSelectors(objects if query.name == ALL else Selector(), metric)


def aggregation_of(request: web.Request) -> str:
    """Returns the aggregation that the client requests, or "". Raises InvalidObject."""
    aggregation = request.query.get("aggregation", "")
    if "aggregation" in request.query and aggregation not in AGGREGATIONS:
        raise InvalidObject(f"aggregation {aggregation!r} is not one of {', '.join(AGGREGATIONS)}")
    return aggregation


def split_selector(selector: Selector) -> tuple[ClusterFilter, Selector]:
    """Splits the selector into a cluster filter and the rest, which is sent to members."""
    clusters = Selector([r for r in selector.requirements if r.key == CLUSTER_LABEL])
    rest = Selector([r for r in selector.requirements if r.key != CLUSTER_LABEL])
    return lambda cluster: clusters.matches({CLUSTER_LABEL: cluster}), rest
