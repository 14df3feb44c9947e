"""The webhook's flags: Karmada's names and defaults (Karmada v1.19), where docs/contracts.md keeps them."""

from __future__ import annotations

from typing import Final

from fedhpa.serving import flag_sets
from fedhpa.serving.flag_types import Sections, boolean

PROGRAM: Final = "fedhpa-webhook"
ABOUT: Final = (
    "Validates and defaults FederatedHPA and CronFederatedHPA objects for the API server's admission. "
    "It needs no access to any API."
)

ALLOW_NO_EXECUTE_TAINT_POLICY: Final = boolean(
    "allow-no-execute-taint-policy",
    False,
    "Of no effect: it concerns kinds that are not served here; accepted because manifests carry it.",
)

FLAGS: Final[Sections] = {
    "Serving": flag_sets.SERVING,
    "Observing": flag_sets.OBSERVING,
    "Hub": flag_sets.HUB,
    "Compatibility": (ALLOW_NO_EXECUTE_TAINT_POLICY, *flag_sets.UNBUILT),
    "Logging": flag_sets.LOGGING,
}
