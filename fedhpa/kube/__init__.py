"""The client of a Kubernetes API: configuration, transport, list and watch, writes, leases, events.

The generated clients of the `kubernetes` package decode every field of every object into classes (11.3 s for
10,000 pods, against 0.3 s here) and read without a size limit. Only its reading of kubeconfigs and in-cluster
credentials is used (`config`).
"""

from fedhpa.kube.client import PAGE_SIZE, ApiClient
from fedhpa.kube.clock import SYSTEM, Clock
from fedhpa.kube.config import ApiConfig, load_config, tls_context
from fedhpa.kube.credentials import Credentials, NoCredentials, StaticCredentials
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.kube.pieces import ListForm, Turns, decode_in_pieces, decode_items
from fedhpa.kube.records import Key
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.resources import (
    ApiGroup,
    Resource,
    ResourceMapper,
    delete_if_there,
    get_if_there,
    get_scale,
    group_path,
    patch_finalizers,
    patch_status,
    patch_with_retry,
    put_scale,
    resource_path,
    segment,
    update_with_retry,
)
from fedhpa.kube.responses import (
    FORBIDDEN,
    MAX_MESSAGE,
    MULTIPLE_CHOICES,
    NOT_FOUND,
    SERVER_ERRORS,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    Response,
    gzip_pieces,
)
from fedhpa.kube.rotation import follow_config
from fedhpa.kube.supervision import (
    FAILURE_OBSERVER,
    Backoff,
    RateLimit,
    background,
    contain,
    contain_each,
    contain_unlogged,
    explain,
    reason_of,
    report_failure,
    supervise,
)
from fedhpa.kube.supervision import TASKS as KUBE_TASKS
