"""Parameters in queries: refused when they are none, as k8s.io/apimachinery 0.36 does."""

from collections.abc import Mapping
from typing import Final

from fedhpa.api.fielderror import FieldError, forbidden, unsupported
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Attributes

_OPTIONS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_DIRECTIVES: Final = ("", "Ignore", "Strict", "Warn")
_MATCHES: Final = ("Exact", "NotOlderThan", "")


def check(at: Attributes, query: Mapping[str, str]) -> None:
    """Refusal for a query that a verb cannot have."""
    if at.verb in ("list", "watch"):
        _check_list(at, query)
        return
    problems = []
    if query.get("dryRun", "All") not in ("", "All"):
        problems.append(unsupported("dryRun", [query["dryRun"]], ["All"]))
    if at.verb in _OPTIONS and query.get("fieldValidation", "") not in _DIRECTIVES:
        problems.append(unsupported("fieldValidation", query["fieldValidation"], _DIRECTIVES))
    if problems:
        raise refusals.invalid("meta.k8s.io", _OPTIONS.get(at.verb, "DeleteOptions"), "", problems)


def _check_list(at: Attributes, query: Mapping[str, str]) -> None:
    for name in ("limit", "timeoutSeconds", "resourceVersion"):
        value = query.get(name, "")
        if value and not value.isdecimal():
            raise refusals.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    problems: list[FieldError] = []
    match = query.get("resourceVersionMatch", "")
    if match and at.verb == "watch":
        problems.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden for watch"))
    elif match and not query.get("resourceVersion"):
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        problems.append(forbidden("resourceVersionMatch", detail))
    elif match not in _MATCHES:
        problems.append(unsupported("resourceVersionMatch", match, _MATCHES))
    if query.get("sendInitialEvents"):
        # Clients list where this is refused.
        detail = f"sendInitialEvents is forbidden for {at.verb} unless the WatchList feature gate is enabled"
        problems.append(forbidden("sendInitialEvents", detail))
    if problems:
        raise refusals.invalid("meta.k8s.io", "ListOptions", "", problems)
