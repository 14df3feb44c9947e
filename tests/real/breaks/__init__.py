"""Breaks of one thing on real planes, by the id of the finding of `fedhpa doctor`, or by ID/VARIANT."""

from tests.real.breaks import admission, aggregation, controllers, hub, members
from tests.real.breaks.patient import Break

BREAKS: dict[str, Break] = {
    **hub.BREAKS,
    **admission.BREAKS,
    **aggregation.BREAKS,
    **members.BREAKS,
    **controllers.BREAKS,
}
