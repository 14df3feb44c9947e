"""Replica arithmetic: pods and usage in, replica counts out. Pure: no I/O, no clock, no object model."""

from fedhpa.scaling.grouping import ClusterSamples, Groups, Readiness, Sampled, group_pods, running_and_ready
from fedhpa.scaling.history import Recommendation, ScaleEvent
from fedhpa.scaling.limits import (
    MESSAGES,
    TOO_MANY,
    WITHIN_RANGE,
    Bounds,
    Limited,
    limit,
    limit_legacy,
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
    CurrentSize,
    Proposal,
    propose_average,
    propose_per_pod,
    propose_utilization,
    propose_value,
)
from fedhpa.scaling.requests import PodRequests, amounts, shared_requests
from fedhpa.scaling.rules import ScalingPolicy, ScalingRules, Tolerances
from fedhpa.scaling.selection import SelectedPods, select_pods, select_usage
from fedhpa.scaling.stabilization import Stabilized, stabilize, stabilize_legacy

__all__ = [
    "IGNORED",
    "MESSAGES",
    "PENDING",
    "TOO_MANY",
    "WITHIN_RANGE",
    "Bounds",
    "ClusterSamples",
    "ContainerUsage",
    "CurrentSize",
    "CustomSample",
    "ExternalSample",
    "Groups",
    "Limited",
    "PodRecord",
    "PodRequests",
    "Proposal",
    "Readiness",
    "Recommendation",
    "Sampled",
    "ScaleEvent",
    "ScalingPolicy",
    "ScalingRules",
    "SelectedPods",
    "Stabilized",
    "Tolerances",
    "UsageRecord",
    "amounts",
    "custom_sample",
    "external_sample",
    "group_pods",
    "limit",
    "limit_legacy",
    "pod_record",
    "propose_average",
    "propose_per_pod",
    "propose_utilization",
    "propose_value",
    "running_and_ready",
    "select_pods",
    "select_usage",
    "shared_requests",
    "stabilize",
    "stabilize_legacy",
    "store_event",
    "sum_over",
    "usage_record",
]
