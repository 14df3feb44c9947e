"""custom.metrics.k8s.io, v1beta1 and v1beta2, over all members.

Each member is asked in the best version it serves. Values of pods stay one a pod and cluster, for pods of
different clusters may share a name; those of other objects are merged by object and labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject, MetricsUnavailable
from fedhpa.api.selectors import parse_field_selector, parse_selector
from fedhpa.kube.paths import group_path, segment
from fedhpa.kube.responses import NOT_FOUND
from fedhpa.members.member import Member
from fedhpa.members.metrics import CUSTOM, CUSTOM_VERSIONS, custom_version, namespace_path, object_path
from fedhpa.serving.status import status_response
from metrics_adapter import answers
from metrics_adapter.gather import Gathered, MembersSource
from metrics_adapter.negotiation import Form, choose_form
from metrics_adapter.paths import path_parts
from metrics_adapter.remembered import Remembered
from metrics_adapter.values import AGGREGATIONS, Value, decode_values, merged, side_by_side, values_json

ALL = "*"
# What a path has below the version: RESOURCE/NAME/METRIC, and that below namespaces/NAMESPACE; and
# namespaces/NAMESPACE/metrics/METRIC.
OF_ROOT, OF_NAMESPACE, NAMESPACED = 3, 4, 5


@dataclass(frozen=True)
class Wanted:
    """What a path asks for; `namespace` is "" for what has none, `name` may be "*"."""

    namespace: str
    resource: str
    name: str
    metric: str

    @property
    def of_namespace(self) -> bool:
        """Whether it is a metric of a namespace itself."""
        return not self.namespace and self.resource == "namespaces"

    @property
    def fleeting(self) -> bool:
        """Whether it is a metric of one pod: pods come and go, and nobody misses one that went."""
        return self.resource == "pods" and self.name != ALL

    def path(self, api_version: str) -> str:
        """Where a member serves it."""
        if self.of_namespace:
            return namespace_path(api_version, self.name, self.metric)
        if self.namespace:
            return object_path(api_version, self.namespace, self.resource, self.name, self.metric)
        rest = "/".join(segment(part) for part in (self.resource, self.name, self.metric))
        return f"{group_path(api_version)}/{rest}"

    def check(self, values: Sequence[Value]) -> None:
        """MetricsUnavailable where a member speaks of what it was not asked for."""
        for value in values:
            given = value.described
            strange = self.name not in (ALL, given.name) or (
                self.namespace not in ("", ALL) and given.namespace not in ("", self.namespace)
            )
            if strange:
                asked = f"{self.resource} {self.name!r}" + (
                    f" in {self.namespace!r}" if self.namespace else ""
                )
                told = f"{given.kind} {given.namespace}/{given.name}"
                raise MetricsUnavailable(f"asked for {asked}, it answered for {told[:256]}")


def read_path(raw_path: str) -> Wanted | None:
    """What a path, still percent-encoded, asks for; None if it has not the shape of any."""
    parts = path_parts(raw_path)
    if parts is None:
        return None
    if parts[:1] == ["namespaces"]:
        if len(parts) == OF_NAMESPACE and parts[2] == "metrics":
            return Wanted("", "namespaces", parts[1], parts[3])
        if len(parts) == NAMESPACED:
            return Wanted(*parts[1:])
    elif len(parts) == OF_ROOT:
        return Wanted("", *parts)
    return None


class CustomApi:
    """GET of values by name or by selector."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source
        self._remembered = Remembered()

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
        params = _params(request, wanted)
        aggregation = _aggregation(request)
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal

        gathered = await self._ask(wanted, params, cluster)
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        pods = wanted.resource == "pods"
        values = side_by_side(gathered.answers) if pods else merged(gathered.answers, aggregation)
        if not values:
            message = f"the server could not find the metric {wanted.metric} for {wanted.resource}"
            return status_response(404, message, headers=answers.warning_headers(gathered))
        version = request.path.split("/")[3]
        # There are no columns for values; who asks for a Table gets the list, as from Karmada.
        return answers.respond(
            values_json(values, version), Form.YAML if form is Form.YAML else Form.JSON, gathered
        )

    async def _ask(
        self, wanted: Wanted, params: dict[str, str], cluster: str | None
    ) -> Gathered[Sequence[Value]]:
        async def told(member: Member) -> Sequence[Value] | None:
            api_version = await custom_version(self._source.lists, member)
            try:
                values = await self._source.fetch(member, wanted.path(api_version), params, decode_values)
            except FedHPAError as error:
                cause = error.__cause__
                if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                    return None  # it serves the API, and knows no such metric or object
                raise
            wanted.check(values)
            return values

        async def ask(member: Member) -> Sequence[Value]:
            if wanted.fleeting:
                return await told(member) or ()
            return await self._remembered.told(member.name, str(wanted), params, told(member)) or ()

        return await self._source.gather(CUSTOM, ask, lambda name: cluster in (None, name))


def _params(request: web.Request, wanted: Wanted) -> dict[str, str]:
    """The query for the members, canonical. Raises InvalidObject for what cannot be selected by."""
    query = request.query
    field_text = query.get("fieldSelector", "")
    if field_text and parse_field_selector(field_text).required("metadata.name") != wanted.name:
        raise InvalidObject("fieldSelector metadata.name doesn't match requested name")
    selectors = {
        "labelSelector": str(parse_selector(query.get("labelSelector", ""))),
        "metricLabelSelector": str(parse_selector(query.get("metricLabelSelector", ""))),
    }
    if wanted.name != ALL:
        del selectors["labelSelector"]  # who is named is not selected
    return {name: text for name, text in selectors.items() if text}


def _aggregation(request: web.Request) -> str:
    wanted = request.query.get("aggregation", "Sum")
    if wanted not in AGGREGATIONS:
        raise InvalidObject(f"aggregation {wanted!r} is not one of {', '.join(AGGREGATIONS)}")
    return wanted
