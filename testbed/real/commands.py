"""Command lines of a plane's programs, with the reason for each surprising flag."""

from dataclasses import dataclass
from pathlib import Path

from testbed.real.pki import SERVICE_RANGE, PlanePki

# A hub's workloads are templates, from which no controller may create pods. Namespaces, tokens and RBAC need
# these controllers.
HUB_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "clusterrole-aggregation-controller",
)

METRIC_RESOLUTION = 10  # seconds, the minimum of metrics-server


@dataclass(frozen=True)
class Ports:
    """The ports of one plane's programs, on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int
    scheduler: int
    kubelet: int
    metrics: int


def etcd(name: str, folder: Path, pki: PlanePki, ports: Ports) -> list[str]:
    """Returns the command of etcd. It runs without fsync because its data ends with the run."""
    url, peer = f"https://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        "etcd",
        f"--name={name}",
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={name}={peer}",
        f"--cert-file={pki.file('etcd.crt')}",
        f"--key-file={pki.file('etcd.key')}",
        f"--trusted-ca-file={pki.file('ca.crt')}",
        "--client-cert-auth",
        "--log-level=warn",
    ]


def kube_apiserver(
    pki: PlanePki, ports: Ports, *, audit: tuple[Path, Path] | None, egress: Path | None = None
) -> list[str]:
    """Returns the command of kube-apiserver; `audit` is a policy file and a log file.

    `egress` is a file that names a proxy to Services. Without it the API server connects to them directly.
    """
    flags = {
        "etcd-servers": f"https://127.0.0.1:{ports.etcd}",
        "etcd-cafile": pki.file("ca.crt"),
        "etcd-certfile": pki.file("etcd-client.crt"),
        "etcd-keyfile": pki.file("etcd-client.key"),
        "bind-address": "127.0.0.1",
        # Never published, because there is no endpoint reconciler. Loopback addresses are not allowed, so it
        # is one reserved for documentation.
        "advertise-address": "192.0.2.1",
        "endpoint-reconciler-type": "none",
        "secure-port": ports.api,
        "tls-cert-file": pki.file("apiserver.crt"),
        "tls-private-key-file": pki.file("apiserver.key"),
        "client-ca-file": pki.file("ca.crt"),
        "kubelet-client-certificate": pki.file("kubelet-client.crt"),
        "kubelet-client-key": pki.file("kubelet-client.key"),
        "authorization-mode": "RBAC",
        "anonymous-auth": "true",
        "allow-privileged": "true",
        "service-cluster-ip-range": SERVICE_RANGE,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": pki.file("service-account.pub"),
        "service-account-signing-key-file": pki.file("service-account.key"),
        "requestheader-client-ca-file": pki.file("front-proxy-ca.crt"),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": pki.file("front-proxy-client.crt"),
        "proxy-client-key-file": pki.file("front-proxy-client.key"),
        # Lets an APIService refer to an ExternalName Service, and so to a process on this machine.
        "enable-aggregator-routing": "false",
        "shutdown-delay-duration": "0s",
        "profiling": "false",
    }
    if audit is not None:
        flags |= {"audit-policy-file": audit[0], "audit-log-path": audit[1], "audit-log-mode": "blocking"}
    if egress is not None:
        flags |= {"egress-selector-config-file": egress}
    return ["kube-apiserver", *_flags(flags)]


def kube_controller_manager(
    name: str, pki: PlanePki, ports: Ports, kubeconfig: Path, *, hub: bool, hpa_sync: str
) -> list[str]:
    """Returns the command of kube-controller-manager, for a hub with HUB_CONTROLLERS only."""
    flags = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": ports.controllers,
        "tls-cert-file": pki.file("apiserver.crt"),
        "tls-private-key-file": pki.file("apiserver.key"),
        "leader-elect": "false",
        "root-ca-file": pki.file("ca.crt"),
        "service-account-private-key-file": pki.file("service-account.key"),
        "use-service-account-credentials": "true",
        "cluster-signing-cert-file": pki.file("ca.crt"),
        "cluster-signing-key-file": pki.file("ca.key"),
        "cluster-name": name,
        "allocate-node-cidrs": "false",
        "controllers": ",".join(HUB_CONTROLLERS) if hub else "*",
        "horizontal-pod-autoscaler-sync-period": hpa_sync,
        # After an outage of the API server the nodes would count as lost, and their pods would stay unready:
        # kwok makes a pod ready only once.
        "node-monitor-grace-period": "1h",
        "kube-api-qps": "100",
        "kube-api-burst": "200",
    }
    return ["kube-controller-manager", *_flags(flags)]


def kube_scheduler(pki: PlanePki, ports: Ports, kubeconfig: Path) -> list[str]:
    """Returns the command of kube-scheduler. It leaves the pods of a full cluster Pending."""
    flags = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": ports.scheduler,
        "tls-cert-file": pki.file("apiserver.crt"),
        "tls-private-key-file": pki.file("apiserver.key"),
        "leader-elect": "false",
    }
    return ["kube-scheduler", *_flags(flags)]


def kwok(config: Path, pki: PlanePki, ports: Ports, kubeconfig: Path) -> list[str]:
    """Returns the command of kwok, which simulates all kubelets.

    Pods become Ready, and ClusterResourceUsage objects set their usage.
    """
    flags = {
        "kubeconfig": kubeconfig,
        "config": config,
        "manage-all-nodes": "true",
        "node-ip": "127.0.0.1",
        "node-port": ports.kubelet,
        "server-address": f"127.0.0.1:{ports.kubelet}",
        "tls-cert-file": pki.file("kwok.crt"),
        "tls-private-key-file": pki.file("kwok.key"),
        "node-lease-duration-seconds": 40,
        "enable-crds": "ClusterResourceUsage",
    }
    return ["kwok", *_flags(flags)]


def metrics_server(pki: PlanePki, ports: Ports, kubeconfig: Path) -> list[str]:
    """Returns the command of metrics-server, which scrapes kwok like kubelets."""
    flags = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": ports.metrics,
        "tls-cert-file": pki.file("metrics-server.crt"),
        "tls-private-key-file": pki.file("metrics-server.key"),
        "kubelet-certificate-authority": pki.file("ca.crt"),
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-use-node-status-port": "true",
        "metric-resolution": f"{METRIC_RESOLUTION}s",
        # It must be below the resolution, or metrics-server exits.
        "kubelet-request-timeout": "5s",
    }
    return ["metrics-server", *_flags(flags)]


def _flags(flags: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
