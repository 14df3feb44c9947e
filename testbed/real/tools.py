"""The programs of a real plane, with their Go modules and versions.

The go.mod and go.sum of testbed/real/tools/<module> alone pin the versions.
"""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

MODULES_DIR = Path(__file__).parent / "tools"
# Names the Kubernetes of all planes, such as 1.34. Unset or empty means the version of tools/kubernetes.
KUBERNETES_VARIABLE = "FEDHPA_KUBERNETES"
# The other Kubernetes that tests/real run on, two minors older. Its module is tools/kubernetes-1.34.
OLDER_KUBERNETES = "1.34"
KUBERNETES = "k8s.io/kubernetes"
# Its module has the CRD of ClusterProfiles too.
CLUSTER_INVENTORY = "sigs.k8s.io/cluster-inventory-api"


@dataclass(frozen=True)
class Tool:
    """One program.

    `package` is built in the module folder `module`; the requirement `pinned_by` of its go.mod pins the
    version. With `version_args` the program prints its version. `first_build_seconds` is the time of a build
    with empty caches on two cores, which the first build prints. `tags` are Go build tags. With `exact` no
    other version is used, also not from KUBEBUILDER_ASSETS.
    """

    name: str
    module: str
    package: str
    pinned_by: str
    version_args: tuple[str, ...]
    first_build_seconds: int
    tags: tuple[str, ...] = ()
    exact: bool = False

    @property
    def folder(self) -> Path:
        """The module folder, whose go.mod pins this program."""
        return MODULES_DIR / self.module

    @property
    def version(self) -> str:
        """The pinned version, with its leading v."""
        return self._pinned(self.pinned_by)

    def _pinned(self, module: str) -> str:
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.folder / 'go.mod'} does not require {module}")
        return found.group(1)

    @property
    def linker_flags(self) -> str:
        """Flags for `go build -ldflags`, which strip the binary and set its version.

        Otherwise kube-apiserver reports v0.0.0-master, and clients that read the version misbehave.
        """
        version = self.version
        major, minor = version.lstrip("v").split(".")[:2]
        variables = {
            KUBERNETES: {
                "k8s.io/component-base/version.gitVersion": version,
                "k8s.io/component-base/version.gitMajor": major,
                "k8s.io/component-base/version.gitMinor": minor,
            },
            "sigs.k8s.io/metrics-server": {"sigs.k8s.io/metrics-server/pkg/version.gitVersion": version},
            "sigs.k8s.io/kwok": {"sigs.k8s.io/kwok/pkg/consts.Version": version},
            "helm.sh/helm/v4": {"helm.sh/helm/v4/internal/version.version": version},
            "helm.sh/helm/v3": {
                "helm.sh/helm/v3/internal/version.version": version,
                **self._helm3_kubernetes(),
            },
            "github.com/cert-manager/cert-manager": {"main.version": version},
            "sigs.k8s.io/custom-metrics-apiserver": {"main.version": version},
            # Otherwise it reports no version. Module version v0.313.5 is release 3.13.5.
            "github.com/prometheus/prometheus": {
                "github.com/prometheus/common/version.Version": version.lstrip("v")
            },
        }.get(self.pinned_by, {})
        return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in variables.items())])

    def _helm3_kubernetes(self) -> dict[str, str]:
        """Returns the Kubernetes version that `helm template` assumes. Otherwise Helm 3 assumes 1.20."""
        if self.module != "helm3":
            return {}
        minor = self._pinned("k8s.io/client-go").split(".")[1]
        packages = ("pkg/chartutil", "pkg/lint/rules")
        parts = {"Major": "1", "Minor": minor}
        return {
            f"helm.sh/helm/v3/{package}.k8sVersion{part}": value
            for package in packages
            for part, value in parts.items()
        }


def _kubernetes(name: str, seconds: int, *version_args: str) -> Tool:
    return Tool(
        name=name,
        module="kubernetes",
        package=f"{KUBERNETES}/cmd/{name}",
        pinned_by=KUBERNETES,
        version_args=version_args or ("--version",),
        first_build_seconds=seconds,
    )


TOOLS: tuple[Tool, ...] = (
    _kubernetes("kube-apiserver", 420),
    _kubernetes("kube-controller-manager", 105),
    _kubernetes("kube-scheduler", 15),
    _kubernetes("kubectl", 125, "version", "--client"),
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ("--version",), 47),
    Tool("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", ("--version",), 125),
    Tool(
        "metrics-server",
        "metrics-server",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "sigs.k8s.io/metrics-server",
        ("--version",),
        173,
    ),
    # The metrics adapter is compared with it. It shares nearly all packages with metrics-server. Both servers
    # of upstream need a cluster, so the program around their packages is ours: tools/upstream/main.go.
    Tool(
        "upstream-adapters",
        "upstream",
        ".",
        "sigs.k8s.io/custom-metrics-apiserver",
        ("--version",),
        20,
    ),
    Tool("helm", "helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", ("version", "--short"), 167),
    # The chart works with Helm 3 and Helm 4. Helm 3 merges on the client, Helm 4 applies on the server.
    Tool("helm3", "helm3", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", ("version", "--short"), 80),
    Tool(
        "prometheus",
        "prometheus",
        "github.com/prometheus/prometheus/cmd/prometheus",
        "github.com/prometheus/prometheus",
        ("--version",),
        200,
        # Omits service discovery for two dozen clouds.
        tags=("remove_all_sd",),
    ),
    # It evaluates the alerts in virtual time, and shares most packages with Prometheus.
    Tool(
        "promtool",
        "prometheus",
        "github.com/prometheus/prometheus/cmd/promtool",
        "github.com/prometheus/prometheus",
        ("--version",),
        120,
        tags=("remove_all_sd",),
    ),
    # Exec plugins for ClusterProfiles.
    *(
        Tool(
            name,
            "cluster-inventory",
            f"{CLUSTER_INVENTORY}/plugins/{name}/cmd/plugin",
            CLUSTER_INVENTORY,
            ("--version",),
            75,
        )
        for name in ("secretreader", "kubeconfig-secretreader")
    ),
)

# No plane has it, and `make real-plane` does not build it. One nightly test does. cert-manager publishes its
# controllers as packages, but not its commands, so the program is ours: tools/cert-manager/main.go.
CERT_MANAGER = Tool(
    "cert-manager",
    "cert-manager",
    ".",
    "github.com/cert-manager/cert-manager",
    ("--version",),
    140,
    exact=True,
)


def kubernetes_asked_for() -> str:
    """Returns the version that FEDHPA_KUBERNETES names, such as "1.34"; "" for that of tools/kubernetes."""
    return os.environ.get(KUBERNETES_VARIABLE, "")


def tools_of(kubernetes: str | None = None) -> tuple[Tool, ...]:
    """Returns all programs with a Kubernetes version: "1.34", or "" for the version of tools/kubernetes.

    None means the version that was asked for. Raises LookupError if no module pins that version.
    """
    version = kubernetes_asked_for() if kubernetes is None else kubernetes
    if not version:
        return TOOLS
    if version != OLDER_KUBERNETES:
        known = f"{OLDER_KUBERNETES}, or empty for {TOOLS[0].version}"
        raise LookupError(f"{KUBERNETES_VARIABLE}={version}: no module pins this version; known are {known}")
    module = f"kubernetes-{version}"
    return tuple(
        replace(tool, module=module, exact=True) if tool.pinned_by == KUBERNETES else tool for tool in TOOLS
    )


def module_key(module: str) -> str:
    """Returns the name of the module's cache folder, a digest of go.mod, go.sum and programs of ours."""
    digest = hashlib.sha256()
    folder = MODULES_DIR / module
    for file in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))):
        digest.update(file.read_bytes())
    return f"{module}-{digest.hexdigest()[:12]}"


def all_key(tools: tuple[Tool, ...]) -> str:
    """Returns the name of the folder with all programs: Kubernetes' version and a digest of all modules."""
    digest = hashlib.sha256()
    for module in sorted({tool.module for tool in tools}):
        digest.update(module_key(module).encode())
    return f"{tools[0].version}-{digest.hexdigest()[:12]}"
