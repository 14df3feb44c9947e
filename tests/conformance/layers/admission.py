"""The webhook's answers to an object, as the API server receives them: /mutate, then /validate."""

from __future__ import annotations

from typing import Any

import jsonpatch

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa
from fedhpa.admission.defaults import default_patch
from fedhpa.admission.federatedhpa import validate_federatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.federatedhpa import FederatedHPA


def refusal(manifest: dict[str, Any]) -> list[str]:
    """Returns the errors in order, each once; [] if the object is admitted."""
    try:
        if manifest["kind"] == "FederatedHPA":
            whole = jsonpatch.apply_patch(manifest, default_patch(manifest))
            errors = validate_federatedhpa(decode(FederatedHPA, whole))
        else:
            errors = validate_cronfederatedhpa(decode(CronFederatedHPA, manifest))
    except WrongType as error:
        return [str(error)]
    return list(dict.fromkeys(map(str, errors)))
