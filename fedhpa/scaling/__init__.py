"""Replica arithmetic: pods and usage in, replica counts out. Pure: no I/O, no clock, no object model."""

from fedhpa.scaling.limits import (
    DOWN_LIMIT,
    MESSAGES,
    TOO_MANY,
    UP_LIMIT,
    WITHIN_RANGE,
    Bounds,
    Limited,
    Recommendation,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    Stabilized,
    limit,
    limit_legacy,
    stabilize,
    stabilize_legacy,
    store_event,
)
from fedhpa.scaling.records import (
    IGNORED,
    PENDING,
    ContainerUsage,
    CustomSample,
    ExternalSample,
    PodRecord,
    UsageRecord,
    custom_sample,
    external_sample,
    pod_record,
    sum_over,
    usage_record,
)
from fedhpa.scaling.replicas import (
    ClusterPods,
    CurrentSize,
    Groups,
    Part,
    Proposal,
    Readiness,
    Tolerances,
    group_pods,
    propose_average,
    propose_per_pod,
    propose_utilization,
    propose_value,
    running_and_ready,
)
from fedhpa.scaling.requests import PodRequests, amounts, shared_requests
from fedhpa.scaling.selection import SelectedPods, select_pods, select_usage
