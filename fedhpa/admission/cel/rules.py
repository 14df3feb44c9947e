"""The CEL rules of the CRDs. The API server enforces them, also while no webhook runs.

They refuse a subset of what the webhook refuses, and use Karmada's messages for Karmada's rules. The API
server evaluates them before it calls the webhook, so users see their messages first.
docs/reference/admission-layers.md lists both answers. Constraints on the rules:

- The API server estimates the cost of each rule from the bounds of its lists and strings, and refuses a CRD
  whose estimate is too high. It counts an int-or-string, and an element taken from a list, as three
  megabytes. So rules check only the first character of quantities in lists, and messages name no element.
- The API server refuses an object if a rule takes more than a million steps. So a rule that is quadratic in a
  list has a limit on the list's length.
- Rules use only what Kubernetes 1.28 has: reason, fieldPath and messageExpression, but not quantity().
- A rule of a type applies wherever the type occurs, also in the status. So the types that hold a reference or
  metric name in a spec have the rules about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.cronfederatedhpa import CRON_RULES
from fedhpa.admission.cel.federatedhpa import SPEC_RULES
from fedhpa.admission.cel.metrics import METRIC_RULES
from fedhpa.admission.cel.rule import Cel
from fedhpa.api.model import ApiModel

# By the model whose schema carries them.
RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {**SPEC_RULES, **METRIC_RULES, **CRON_RULES}
