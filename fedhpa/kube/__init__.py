"""The client of a Kubernetes API: configuration, transport, list and watch, writes, leases, events.

The generated clients of the `kubernetes` package decode every field of every object into classes (11.3 s for
10,000 pods, against 0.3 s here) and read without a size limit. Only its reading of kubeconfigs and in-cluster
credentials is used (`config`).
"""

from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, load_config
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.kube.mapping import Resource, ResourceMapper
from fedhpa.kube.reflector import Change, Reflector
from fedhpa.kube.responses import Listing, Response
from fedhpa.kube.writes import get_scale, patch_status, put_scale, put_status, update_with_retry

__all__ = [
    "ApiClient",
    "ApiConfig",
    "Change",
    "EventRecorder",
    "InvolvedObject",
    "LeaderElector",
    "LeaseTiming",
    "Listing",
    "Reflector",
    "Resource",
    "ResourceMapper",
    "Response",
    "get_scale",
    "load_config",
    "patch_status",
    "put_scale",
    "put_status",
    "update_with_retry",
]
