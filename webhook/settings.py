"""The webhook's flags. Where Karmada v1.19 has a flag, its name and default are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedhpa.serving.flags import Sections, boolean, choice, common, members

PROGRAM: Final = "fedhpa-webhook"
ABOUT: Final = (
    "Admission webhook that validates and defaults FederatedHPA and CronFederatedHPA objects. "
    "It needs no access to any API. With a kubeconfig it also warns about conflicts with other objects."
)

KARMADA: Final = "karmada"
DIRECT: Final = "direct"
AUTO, ON, OFF = "auto", "on", "off"

ALLOW_NO_EXECUTE_TAINT_POLICY: Final = boolean(
    "allow-no-execute-taint-policy",
    False,
    "Without effect, because it concerns Karmada kinds that this webhook does not serve.",
)
PROPAGATION: Final = choice(
    "propagation",
    DIRECT,
    "The value of the controller's --propagation. With karmada, the webhook warns if a target is missing on "
    "the hub, and refuses spec.placement.publish; with direct, targets exist only in the member clusters and "
    "are not checked.",
    choices=(KARMADA, DIRECT),
)
CROSS_OBJECT_WARNINGS: Final = choice(
    "cross-object-warnings",
    AUTO,
    "Read the hub to warn about other objects: auto reads it if --kubeconfig is set; on also uses the pod's "
    "service account; off never reads it.",
    choices=(AUTO, ON, OFF),
)
KUBECONFIG: Final = replace(
    common.KUBECONFIG,
    help="Kubeconfig of the hub, for warnings about other objects; not needed to validate or default.",
)
MEMBERS_FROM: Final = replace(
    members.MEMBERS_FROM,
    help="The value of the controller's --members-from. The webhook warns about unknown clusters only "
    "where all members are Clusters.",
)
HUB: Final = tuple(KUBECONFIG if flag.name == KUBECONFIG.name else flag for flag in common.HUB)

FLAGS: Final[Sections] = {
    "Serving": common.SERVING,
    "Observing": common.OBSERVING,
    "Hub": (*HUB, PROPAGATION, MEMBERS_FROM, CROSS_OBJECT_WARNINGS),
    "Compatibility": (ALLOW_NO_EXECUTE_TAINT_POLICY, *common.UNBUILT),
    "Logging": common.LOGGING,
}
