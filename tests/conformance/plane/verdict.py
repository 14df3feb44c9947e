"""Whether a conversation went as the recorded one."""

from __future__ import annotations

from tests.conformance.plane.record import Transcript, differences


def must_be_the_same(recorded: Transcript, said: Transcript, error: Exception | None) -> None:
    """Raise what broke the conversation off, or AssertionError: what was said otherwise than recorded."""
    found = differences(recorded, said)
    if error is not None:
        if found:
            error.add_note(f"said otherwise than recorded:{found}")
        raise error
    if found:
        raise AssertionError(f"said otherwise than recorded:{found}")
