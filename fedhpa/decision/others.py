"""The conditions about others that act on the workload or the objects: SoleOwner and HubCompatible."""

from __future__ import annotations

from typing import Final

from fedhpa.api.texts import listed
from fedhpa.decision.context import Context
from fedhpa.decision.messages import HUB_COMPATIBLE, HUB_IS_OURS, NO_OTHER_AUTOSCALER, SOLE_OWNER
from fedhpa.decision.resets import SizeChange

# People read events and conditions, so they name only so many autoscalers.
_MAX_NAMED: Final = 4
# Where the part of a message begins that differs each time.
_LAST: Final = ": last"


def report_owners(context: Context) -> None:
    """Set SoleOwner once another owner was found, with one event for each new set of them.

    That is an autoscaler, or else a client that keeps changing the size. An autoscaler that is named already
    explains such changes.
    """
    others, resets, builder = context.snapshot.competitors, context.memory.resets, context.builder
    before = builder.found(SOLE_OWNER)
    if others:
        reason = "AnotherAutoscaler"
        message = f"the target is also scaled by {listed(others, _MAX_NAMED)}: remove either"
    elif resets is not None and resets.is_conflict:
        reason, message = "AnotherWriter", _conflict(resets.last)
    else:
        if before is not None:
            builder.condition(SOLE_OWNER, True, "NoOtherAutoscaler", NO_OTHER_AUTOSCALER)
        return
    # The numbers of a client that keeps changing the size differ each time.
    if before is None or before.reason != reason or _owner(before.message) != _owner(message):
        builder.warn(reason, message)
    builder.condition(SOLE_OWNER, False, reason, message)


def _conflict(last: SizeChange) -> str:
    where = f" in {last.cluster}" if last.cluster else ""
    return (
        f"{last.by or 'another client'} keeps changing the size{_LAST}{where} to {last.found} replicas, "
        f"where the controller had left {last.left}; stop it, or leave spec.replicas out of what it applies"
    )


def _owner(message: str) -> str:
    """Returns the part of a message of SoleOwner that names the other owner."""
    return message.partition(_LAST)[0]


def report_hub(context: Context) -> None:
    """Set HubCompatible, where a problem is or was found, with events for each new set of problems."""
    findings, builder = context.snapshot.hub_findings, context.builder
    if not findings:
        builder.condition(HUB_COMPATIBLE, True, "NothingFound", HUB_IS_OURS)
        return
    message = "; ".join(finding.message for finding in findings)
    if builder.message(HUB_COMPATIBLE) != message:
        for finding in findings:
            builder.warn(finding.reason, finding.message)
    builder.condition(HUB_COMPATIBLE, False, findings[0].reason, message)
