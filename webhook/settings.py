"""The webhook's flags. Where Karmada v1.19 has a flag, name and default are Karmada's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedhpa.serving.flags import Sections, boolean, choice, common

PROGRAM: Final = "fedhpa-webhook"
ABOUT: Final = (
    "Validates and defaults FederatedHPA and CronFederatedHPA objects for the API server's admission. "
    "It needs no access to any API; with a kubeconfig it warns about other objects on the hub, too."
)

KARMADA: Final = "karmada"
DIRECT: Final = "direct"
AUTO, ON, OFF = "auto", "on", "off"

ALLOW_NO_EXECUTE_TAINT_POLICY: Final = boolean(
    "allow-no-execute-taint-policy",
    False,
    "Of no effect: it concerns kinds that are not served here; accepted because manifests carry it.",
)
PROPAGATION: Final = choice(
    "propagation",
    KARMADA,
    "The controller's flag: with karmada targets are templates on the hub, and one that is missing there is "
    "warned about; with direct they are in the members, which are not asked.",
    choices=(KARMADA, DIRECT),
)
CROSS_OBJECT_WARNINGS: Final = choice(
    "cross-object-warnings",
    AUTO,
    "Whether to read the hub for warnings about other objects: auto does if --kubeconfig is given, on also "
    "takes the pod's own service account.",
    choices=(AUTO, ON, OFF),
)
KUBECONFIG: Final = replace(
    common.KUBECONFIG,
    help="The hub's kubeconfig, for warnings about other objects; not needed for verdicts.",
)
HUB: Final = tuple(KUBECONFIG if flag.name == KUBECONFIG.name else flag for flag in common.HUB)

FLAGS: Final[Sections] = {
    "Serving": common.SERVING,
    "Observing": common.OBSERVING,
    "Hub": (*HUB, PROPAGATION, CROSS_OBJECT_WARNINGS),
    "Compatibility": (ALLOW_NO_EXECUTE_TAINT_POLICY, *common.UNBUILT),
    "Logging": common.LOGGING,
}
