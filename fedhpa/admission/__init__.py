"""Admission: the defaults, verdicts and warnings of the webhook, and the CRDs.

Everything here is a pure function of the object. Other packages import from this module, or `crd` for the
CustomResourceDefinitions.
"""

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa, warn_cronfederatedhpa
from fedhpa.admission.defaults import default_patch
from fedhpa.admission.federatedhpa import federatedhpa_remedies, validate_federatedhpa, warn_federatedhpa
from fedhpa.admission.placement import warn_unknown_clusters

__all__ = [
    "default_patch",
    "federatedhpa_remedies",
    "validate_cronfederatedhpa",
    "validate_federatedhpa",
    "warn_cronfederatedhpa",
    "warn_federatedhpa",
    "warn_unknown_clusters",
]
