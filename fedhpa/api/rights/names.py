"""Names of accounts, roles and other objects of an installation."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "fedhpa-system"
# Where Karmada keeps the credentials of its clusters.
CLUSTER_NAMESPACE: Final = "karmada-cluster"
# The accounts of the processes on the hub, and of the hub's token on a member.
CONTROLLER, ADAPTER, WEBHOOK = "fedhpa-controller", "fedhpa-metrics-adapter", "fedhpa-webhook"
MEMBER: Final = "fedhpa-hub"

# The names of ClusterRoles.
CONTROLLER_ROLE, ADAPTER_ROLE, WEBHOOK_ROLE = "fedhpa:controller", "fedhpa:metrics-adapter", "fedhpa:webhook"
MEMBER_ROLE, MEMBER_METRICS_ROLE = "fedhpa:member", "fedhpa:member-metrics"
READER_ROLE: Final = "fedhpa:aggregated-metrics-reader"
VIEW_ROLE, EDIT_ROLE = "fedhpa:view", "fedhpa:edit"

# The label of every object of this project.
PART_OF, PROJECT = "app.kubernetes.io/part-of", "fedhpa"

# With --manage-certificates: the Secrets that the controller writes, and the objects that get its CA.
CERTIFICATE_SECRETS: Final = ("fedhpa-ca", "fedhpa-metrics-adapter-tls", "fedhpa-webhook-tls")
WEBHOOK_CONFIGURATION: Final = "fedhpa-webhook"
API_SERVICES: Final = (
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
    "v1beta1.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
)

USAGE: Final = "metrics.k8s.io"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
VALUES: Final = (CUSTOM, EXTERNAL)
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
