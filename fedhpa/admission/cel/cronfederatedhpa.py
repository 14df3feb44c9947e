"""The CEL rules of a CronFederatedHPA: Karmada's rules and messages, and the shape of schedules.

Only the webhook checks time zones, durations, dates, and the fields of a schedule. Its messages say what to
write, and the controller does not run a rule that got past it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.rule import Cel, literal, reference
from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.model import ApiModel
from fedhpa.cron import InvalidSchedule, parse

# The comparison of rule names is quadratic, so CEL skips it for longer lists; the webhook has no limit.
COMPARED_NAMES: Final = 200

_SCALES_FHPA: Final = (
    f"(has(self.scaleTargetRef.apiVersion) && self.scaleTargetRef.apiVersion == '{API_VERSION}')"
)


def _each(condition: str, message: str, *, fhpa: bool, expression: str = "") -> Cel:
    """Returns a rule about each cron rule `r`, for targets that are (`fhpa`) or are not a FederatedHPA."""
    applies = f"!{_SCALES_FHPA}" if fhpa else _SCALES_FHPA
    return Cel(
        f"{applies} || self.rules.all(r, {condition})", message, ".rules", message_expression=expression
    )


# Without its apiVersion a FederatedHPA counts as a workload.
_NO_REPLICAS: Final = (
    "'targetReplicas cannot be nil if you want to scale ' + self.scaleTargetRef.kind"
    f" + (self.scaleTargetRef.kind == '{KIND}'"
    f" ? '; to change its limits, write {API_VERSION} as apiVersion' : '')"
)


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
    _each(
        "has(r.targetReplicas)",
        "targetReplicas cannot be nil if you want to scale anything but a FederatedHPA",
        fhpa=False,
        expression=_NO_REPLICAS,
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
# Five fields, or a macro. Only the webhook reads the fields: its parser can name the field that is wrong.
_MACRO: Final = "@(?i:(year|annual|month|week|dai|hour)ly|midnight)"
SCHEDULE: Final = rf"^[ \t]*({_MACRO}([ \t].*)?|([^ \t\r\n]+([ \t]+|$)){{5}})$"
# The webhook names a character that looks like a blank. Counting fields would only give a wrong number.
FOREIGN: Final = r"[^\t\r\n -~]"


def _words(schedule: str) -> str:
    """Returns what the parser says about a wrong schedule, as a CEL literal."""
    try:
        parse(schedule)
    except InvalidSchedule as error:
        return literal(str(error).removeprefix("schedule: "))
    raise AssertionError(f"{schedule!r} is a schedule")


def _fields(count: int) -> str:
    return rf"^[ \t]*([^ \t]+([ \t]+|$)){{{count}}}$"


# The first pattern that matches decides which message a person reads.
_MISTAKES: Final = (
    (r"[\r\n]", _words("\n")),
    ("^[ \\t]*(?i:(CRON_)?TZ)=", _words("TZ=UTC 0 8 * * *")),
    ("^[ \\t]*@(?i:reboot)", _words("@reboot")),
    ("^[ \\t]*@(?i:every)", _words("@every 5m")),
    ("^[ \\t]*@", "'write five fields or one of @hourly, @daily, @weekly, @monthly, @yearly'"),
    (_fields(6), _words("0 0 8 * * *")),
    (_fields(7), _words("0 0 8 * * * *")),
)
_FIVE_FIELDS: Final = "write five fields (minute hour day-of-month month day-of-week), such as 30 8 * * 1-5"


def _message() -> str:
    chosen = f"'{_FIVE_FIELDS}'"
    for pattern, words in reversed(_MISTAKES):
        chosen = f"self.schedule.matches({literal(pattern)}) ? {words} : ({chosen})"
    return f"'invalid cron format: ' + ({chosen})"


_CRON_RULE: Final = (
    Cel(
        f"self.schedule.matches({literal(SCHEDULE)}) || self.schedule.matches({literal(FOREIGN)})",
        f"invalid cron format: {_FIVE_FIELDS}",
        ".schedule",
        message_expression=_message(),
    ),
)

CRON_RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {
    CronFederatedHPASpec: _CRON,
    CronFederatedHPARule: _CRON_RULE,
}
