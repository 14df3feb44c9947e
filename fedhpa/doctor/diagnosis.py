"""The pure core: an observation becomes a report. Behind a failed check nothing is reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from fedhpa.doctor.checks.admission import check_admission
from fedhpa.doctor.checks.aggregation import check_aggregation
from fedhpa.doctor.checks.certificates import check_certificates, check_managed_ca, managed_command
from fedhpa.doctor.checks.hub import check_definition, check_hub, check_hub_clock, check_rights, serves
from fedhpa.doctor.checks.leadership import CONTROLLER, check_leadership
from fedhpa.doctor.checks.members import check_members
from fedhpa.doctor.checks.objects import check_objects
from fedhpa.doctor.findings import WHY, Finding, NotChecked, Report, Result
from fedhpa.doctor.observations import Admission, Objects, Observation, Problem

_ORDER: Final = {kind: position for position, kind in enumerate(WHY)}


def diagnose(seen: Observation) -> Report:
    """Returns the first failed check of each chain, and the checks that could not be made."""
    found = list(check_hub(seen.hub))
    if found:
        return Report(tuple(found))
    results = list(_behind_the_hub(seen))
    findings = [each for each in results if isinstance(each, Finding)]
    broken = [each.id for each in findings]
    findings += check_certificates(seen.certificates, seen.now, seen.namespace, broken)
    if seen.leadership is not None and seen.leadership.manages_certificates:
        findings = [
            msgspec.structs.replace(each, command=managed_command(each, seen.certificates, seen.now))
            for each in findings
        ]
        findings += check_managed_ca(seen.certificates, seen.now)
    findings.sort(key=lambda finding: _ORDER[finding.id])  # stable: objects keep their order
    not_checked = [each for each in results if isinstance(each, NotChecked)]
    return Report(tuple(findings), tuple(dict.fromkeys(not_checked)))


def _behind_the_hub(seen: Observation) -> Iterator[Result]:
    yield from check_hub_clock(seen.hub)
    rights = [result for each in seen.rights for result in check_rights(each)]
    yield from rights
    for definition in seen.definitions:
        yield from check_definition(definition)
    if seen.admission is not None:
        yield from check_admission(_of_served_kinds(seen.admission, seen), seen.namespace)
    if seen.aggregation is not None:
        yield from check_aggregation(seen.aggregation, seen.namespace)
    if seen.members is not None:
        yield from check_members(seen.members, seen.now)
    if seen.leadership is not None and not _may_not_lead(rights):
        yield from check_leadership(seen.leadership, seen.namespace, _wanted(seen.objects))
    if seen.objects is not None:
        yield from check_objects(seen.objects)


def _of_served_kinds(admission: Admission, seen: Observation) -> Admission:
    """Leaves out the dry runs of kinds that the hub does not serve."""
    trials = tuple(each for each in admission.trials if serves(seen, each.kind))
    return Admission(admission.entries, trials)


def _may_not_lead(rights: Iterable[Result]) -> bool:
    """True if the controller lacks rights, which then explains that it does not lead."""
    return any(isinstance(each, Finding) and each.subject == CONTROLLER for each in rights)


def _wanted(objects: Objects | None) -> list[str]:
    """Returns the values of --controllers with objects on the hub."""
    if objects is None:
        return []
    kinds = zip(("federatedhpa", "cronfederatedhpa"), (objects.scaled, objects.crons), strict=True)
    return [name for name, found in kinds if found and not isinstance(found, Problem)]
