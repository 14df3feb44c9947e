"""external.metrics.k8s.io/v1beta1 over all members: all members' values, each with a cluster label.

Values are added up only if `?aggregation=` or a rule says how. A client selects one cluster's values by the
label.
"""

from __future__ import annotations

from aiohttp import web

from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.members.metrics import EXTERNAL, EXTERNAL_VERSION
from fedhpa.serving.error_responses import status_response
from metrics_adapter.members.external_metrics import CLUSTER_LABEL, encode_external_values
from metrics_adapter.members.source import ClusterFilter, MembersSource
from metrics_adapter.pace import in_thread_above
from metrics_adapter.server import responses
from metrics_adapter.server.custom_metrics import SHORT_LIST, aggregation_of
from metrics_adapter.server.paths import external_query


class ExternalMetricsApi:
    """The handler of external.metrics.k8s.io."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source

    def routes(self) -> list[web.RouteDef]:
        """Returns the one route of the API."""
        return [web.get(f"/apis/{EXTERNAL_VERSION}/namespaces/{{rest:.+}}", self._get)]

    async def _get(self, request: web.Request) -> web.StreamResponse:
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


def split_selector(selector: Selector) -> tuple[ClusterFilter, Selector]:
    """Splits the selector into a cluster filter and the rest, which is sent to members."""
    clusters = Selector([r for r in selector.requirements if r.key == CLUSTER_LABEL])
    rest = Selector([r for r in selector.requirements if r.key != CLUSTER_LABEL])
    return lambda cluster: clusters.matches({CLUSTER_LABEL: cluster}), rest
