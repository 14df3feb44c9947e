"""The CEL rules of the CRDs: what a hub refuses while no webhook runs.

They refuse a part of what admission refuses and nothing else, in the same words where a rule is Karmada's.
The schema is asked before the webhook, so what it says is the first that people read;
docs/reference/admission-layers.md has the whole table. What limits the rules:

- The API server estimates the cost of a rule from the bounds of the lists and strings it looks at, and
  refuses a CRD that may cost too much. An int-or-string counts as three megabytes, so quantities in lists are
  looked at by their first character; an element picked out of a list counts so too, so no message names it.
- An expression that costs more than a million steps when it is run refuses the object, so nothing is
  quadratic in a list without a limit of its own.
- Nothing newer than Kubernetes 1.28 is used: reason, fieldPath and messageExpression, but no quantity().
- A rule of a type holds wherever the type stands, in the status too. So rules about references and metric
  names stand with those who hold them in a spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.cronfederatedhpa import CRON_RULES
from fedhpa.admission.cel.federatedhpa import SPEC_RULES
from fedhpa.admission.cel.metrics import METRIC_RULES
from fedhpa.admission.cel.rule import Cel
from fedhpa.api.model import ApiModel

# By the type that holds them.
RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {**SPEC_RULES, **METRIC_RULES, **CRON_RULES}
