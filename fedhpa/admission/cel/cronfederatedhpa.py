"""The CEL rules of a CronFederatedHPA: Karmada's rules and messages, and patterns of schedules and zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.rule import Cel, literal, reference
from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.model import ApiModel

# The comparison of rule names is quadratic, so CEL skips it for longer lists; the webhook has no limit.
COMPARED_NAMES: Final = 200

_SCALES_FHPA: Final = (
    f"(has(self.scaleTargetRef.apiVersion) && self.scaleTargetRef.apiVersion == '{API_VERSION}')"
)


def _each(condition: str, message: str, *, fhpa: bool) -> Cel:
    """Returns a rule about each cron rule `r`, for targets that are (`fhpa`) or are not a FederatedHPA."""
    applies = f"!{_SCALES_FHPA}" if fhpa else _SCALES_FHPA
    return Cel(f"{applies} || self.rules.all(r, {condition})", message, ".rules")


_CRON: Final = (
    Cel(
        f"!{_SCALES_FHPA} || self.scaleTargetRef.kind == '{KIND}'",
        f"invalid scaleTargetRef kind, only support {KIND}",
        ".scaleTargetRef.kind",
        message_expression=f"'invalid scaleTargetRef kind: ' + self.scaleTargetRef.kind"
        f" + ', only support {KIND}'",
    ),
    *reference("scaleTargetRef"),
    Cel(
        f"self.rules.size() > {COMPARED_NAMES} || [self.rules.map(r, r.name)]"
        ".all(names, names.all(name, names.indexOf(name) == names.lastIndexOf(name)))",
        "the names of the rules must differ",
        ".rules",
    ),
    Cel(
        f"{_SCALES_FHPA} || self.rules.all(r, has(r.targetReplicas))",
        "targetReplicas cannot be nil if you want to scale anything but a FederatedHPA",
        ".rules",
        message_expression="'targetReplicas cannot be nil if you want to scale ' + self.scaleTargetRef.kind",
    ),
    _each(
        "!has(r.targetReplicas) || r.targetReplicas >= 0",
        "targetReplicas should be larger than or equal to 0",
        fhpa=False,
    ),
    _each(
        "has(r.targetMinReplicas) || has(r.targetMaxReplicas)",
        "targetMinReplicas and targetMaxReplicas cannot be nil at the same time"
        " if you want to scale FederatedHPA",
        fhpa=True,
    ),
    _each(
        "!has(r.targetMinReplicas) || r.targetMinReplicas > 0",
        "targetMinReplicas should be larger than 0",
        fhpa=True,
    ),
    _each(
        "!has(r.targetMaxReplicas) || r.targetMaxReplicas > 0",
        "targetMaxReplicas should be larger than 0",
        fhpa=True,
    ),
    _each(
        "!has(r.targetMinReplicas) || !has(r.targetMaxReplicas)"
        " || r.targetMinReplicas <= r.targetMaxReplicas",
        "targetMaxReplicas should be larger than or equal to targetMinReplicas",
        fhpa=True,
    ),
)
# The pattern of a schedule. Only the webhook checks the ranges of the numbers.
_VALUE: Final = r"(\d+|[A-Za-z]{3})"
_ITEM: Final = rf"([*?]|{_VALUE}(-{_VALUE})?)(/\d+)?"
_FIELD: Final = f"{_ITEM}(,{_ITEM})*"
# The estimated cost grows with the length of the expression, so one field is written and repeated.
_MACRO: Final = "@(?i:(year|annual|month|week|dai|hour)ly|midnight)"
SCHEDULE: Final = f"^[ \\t]*({_MACRO}[ \\t]*|({_FIELD}([ \\t]+|$)){{5}})$"
# The pattern of IANA names. It also matches offsets such as UTC+8, which OFFSET excludes.
ZONE: Final = "^([A-Za-z][A-Za-z0-9_]*([-+/][A-Za-z0-9_]+)*)?$"
OFFSET: Final = "^(UTC|GMT)[-+]"
NOT_OFFSETS: Final = ("GMT+0", "GMT-0")


_CRON_RULE: Final = (
    Cel(
        f"self.schedule.matches({literal(SCHEDULE)})",
        "invalid cron format: write five fields, such as 30 8 * * 1-5, or @hourly, @daily and the like",
        ".schedule",
    ),
    Cel(
        f"!has(self.timeZone) || self.timeZone in {list(NOT_OFFSETS)}"
        f" || (self.timeZone.matches({literal(ZONE)}) && !self.timeZone.matches({literal(OFFSET)}))",
        "unknown time zone: write an IANA name such as Europe/Berlin; UTC+8 is called Etc/GMT-8",
        ".timeZone",
    ),
)

CRON_RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {
    CronFederatedHPASpec: _CRON,
    CronFederatedHPARule: _CRON_RULE,
}
