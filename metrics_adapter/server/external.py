"""external.metrics.k8s.io/v1beta1 over all members: every member's values, each with its cluster as a label.

Nothing is added up unless `?aggregation=` or a rule says how: clients do, and who wants one cluster's values
selects by the label.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.members.metrics import EXTERNAL, EXTERNAL_VERSION
from fedhpa.serving.status import status_response
from metrics_adapter.members.gather import MembersSource
from metrics_adapter.members.series import CLUSTER_LABEL, list_json
from metrics_adapter.server import answers
from metrics_adapter.server.custom import aggregation_of
from metrics_adapter.server.negotiation import TRUE_WORDS, choose_form
from metrics_adapter.server.paths import path_parts

# namespaces/NAMESPACE/METRIC
PARTS = 3


class ExternalApi:
    """GET of all values of a metric in a namespace."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source

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
        if request.query.get("fieldSelector"):
            # Values have neither names nor other fields: to give all of them would be a wrong answer.
            return status_response(400, "fieldSelector: external metrics are selected by labelSelector alone")
        selector = parse_selector(request.query.get("labelSelector", ""))
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        wanted, there = split(selector)
        aggregation = aggregation_of(request)

        namespace, metric = parts[1:]
        gathered = await self._source.external(
            namespace, metric, there, lambda name: cluster in (None, name) and wanted(name)
        )
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        if all(told.series is None for told in gathered.answers):
            message = f"the server could not find the external metric {metric}"
            return status_response(404, message, headers=answers.warning_headers(gathered))
        body = list_json(gathered.answers, metric, aggregation or gathered.aggregation)
        return answers.respond(body, form, gathered)


def split(selector: Selector) -> tuple[Callable[[str], bool], Selector]:
    """Whom to ask, by what is required of the cluster, and all else that is required."""
    here = Selector([r for r in selector.requirements if r.key == CLUSTER_LABEL])
    there = Selector([r for r in selector.requirements if r.key != CLUSTER_LABEL])
    return lambda cluster: here.matches({CLUSTER_LABEL: cluster}), there
