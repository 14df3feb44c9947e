"""The Pods, Object and External metrics that an object names, read from one cluster.

Each is asked for by itself and may fail by itself. Objects that ask the same share one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fedhpa.api.errors import FedHPAError, InvalidObject, MemberUnavailable, MetricsUnavailable
from fedhpa.api.metric_types import CUSTOM_API, EXTERNAL_API
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.decision.asked import asked_for
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.kube.mapping import ResourceMapper
from fedhpa.kube.responses import MAX_MESSAGE
from fedhpa.members import metrics as apis
from fedhpa.members.lists import SharedLists, Upstream
from fedhpa.scaling.records import CustomSample, ExternalSample

# So many questions of one object are put to a cluster at once; admission allows 64 metrics.
AT_ONCE: Final = 8

CustomAnswers = Mapping[str, tuple[CustomSample, ...] | Failure]
ExternalAnswers = Mapping[str, tuple[ExternalSample, ...] | Failure]


@dataclass(frozen=True)
class Asking:
    """Whom to ask, for which workload: its pods are those of `selector`, listed under the names `pods`.

    Answers may be `max_age` seconds old.
    """

    lists: SharedLists
    member: Upstream
    mapper: ResourceMapper
    namespace: str
    selector: Selector
    pods: Collection[str]
    max_age: float


def questions_of(metrics: Sequence[MetricSpec]) -> Mapping[str, MetricSpec]:
    """One metric for each question to ask, by `asked_for`; the same for all clusters."""
    return {asked_for(spec): spec for spec in metrics if _can_be_asked(spec)}


async def read_metrics(
    asking: Asking, questions: Mapping[str, MetricSpec]
) -> tuple[CustomAnswers, ExternalAnswers]:
    """The answers to all questions, under their keys; what failed has its reason. Never raises."""
    if not questions:
        return {}, {}
    turns = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        custom = {
            key: group.create_task(_custom(asking, spec, turns))
            for key, spec in questions.items()
            if spec.metric_type.api == CUSTOM_API
        }
        external = {
            key: group.create_task(_external(asking, spec, turns))
            for key, spec in questions.items()
            if spec.metric_type.api == EXTERNAL_API
        }
    return (
        {key: task.result() for key, task in custom.items()},
        {key: task.result() for key, task in external.items()},
    )


def reason(error: FedHPAError) -> str:
    """What went wrong, without the cluster's name: it goes behind the name.

    Cut off where a member put more into it than a condition should hold.
    """
    if isinstance(error, MemberUnavailable):
        return error.reason[:MAX_MESSAGE]
    return str((isinstance(error, MetricsUnavailable) and error.__cause__) or error)[:MAX_MESSAGE]


def _can_be_asked(spec: MetricSpec) -> bool:
    if spec.metric_type.api not in (CUSTOM_API, EXTERNAL_API) or not spec.present:
        return False
    try:
        _selector(spec)
    except InvalidObject:
        return False  # the metric itself fails on it, with the message; no cluster is to blame
    return True


def _selector(spec: MetricSpec) -> str:
    return "" if spec.selector is None else str(selector_of(spec.selector))


async def _custom(
    asking: Asking, spec: MetricSpec, turns: asyncio.Semaphore
) -> tuple[CustomSample, ...] | Failure:
    if spec.metric_type.per_pod and not asking.pods:
        return ()  # adapters do not agree on what to say of no pods
    try:
        async with turns:
            version = await apis.custom_version(asking.lists, asking.member)
            path = await _custom_path(asking, spec, version)
            params = {"labelSelector": str(asking.selector)} if spec.metric_type.per_pod else {}
            params |= {"metricLabelSelector": _selector(spec)}
            fetched = await asking.lists.get(
                asking.member, path, params, apis.custom_samples, max_age=asking.max_age
            )
        return _of_pods(asking, fetched.value) if spec.metric_type.per_pod else fetched.value
    except FedHPAError as error:
        return Failure(reason(error))
    except ValueError as error:  # a name that cannot be part of a path
        return Failure(str(error))


async def _custom_path(asking: Asking, spec: MetricSpec, version: str) -> str:
    if spec.metric_type.per_pod:
        return apis.pods_path(version, asking.namespace, spec.name)
    described = spec.described_object or {}
    kind = str(described.get("kind") or "")
    api_version = str(described.get("apiVersion") or "v1")
    group = api_version.rpartition("/")[0]
    if kind == "Namespace" and not group:
        # Kubernetes' HPA: of its own namespace, whatever name is written.
        return apis.namespace_path(version, asking.namespace, spec.name)
    try:
        resource = await asking.mapper.resolve(api_version, kind)
    except InvalidObject as error:
        named = f"{kind}.{group}" if group else kind
        raise MetricsUnavailable(f"unable to map kind {named}: {error}") from None
    plural = f"{resource.plural}.{group}" if group else resource.plural
    name = str(described.get("name") or "")
    return apis.object_path(version, asking.namespace, plural, name, spec.name)


def _of_pods(asking: Asking, samples: Sequence[CustomSample]) -> tuple[CustomSample, ...]:
    """The values of the workload's own pods, whatever else the member sends along."""
    found: dict[str, CustomSample] = {}
    for sample in samples:
        if sample.name not in asking.pods or sample.namespace not in ("", asking.namespace):
            continue
        if found.setdefault(sample.name, sample).milli != sample.milli:
            raise MetricsUnavailable(f"pod {sample.name} has two values of {sample.metric}")
    return tuple(found.values())


async def _external(
    asking: Asking, spec: MetricSpec, turns: asyncio.Semaphore
) -> tuple[ExternalSample, ...] | Failure:
    params = {"labelSelector": _selector(spec)}
    try:
        path = apis.external_path(asking.namespace, spec.name)
        async with turns:
            fetched = await asking.lists.get(
                asking.member, path, params, apis.external_samples, max_age=asking.max_age
            )
    except FedHPAError as error:
        return Failure(reason(error))
    except ValueError as error:
        return Failure(str(error))
    return fetched.value
