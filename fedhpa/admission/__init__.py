"""Admission: the defaults, verdicts and warnings of the webhook, and the CRDs.

Everything here is a pure function of the object. Other packages import from this module, or `crd` for the
CustomResourceDefinitions.
"""

from fedhpa.admission.defaults import default_patch
from fedhpa.admission.validation.cronfederatedhpa import validate_cronfederatedhpa
from fedhpa.admission.validation.federatedhpa import validate_federatedhpa
from fedhpa.admission.warnings.cronfederatedhpa import warn_cronfederatedhpa
from fedhpa.admission.warnings.extensions import warn_unknown_clusters
from fedhpa.admission.warnings.federatedhpa import federatedhpa_remedies, warn_federatedhpa

__all__ = [
    "default_patch",
    "federatedhpa_remedies",
    "validate_cronfederatedhpa",
    "validate_federatedhpa",
    "warn_cronfederatedhpa",
    "warn_federatedhpa",
    "warn_unknown_clusters",
]
