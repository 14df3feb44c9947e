"""The doctor: finds the first failed check of each chain between a FederatedHPA and its pods.

`reading` observes the hub and the members (the shell), `checks` and `diagnosis` are pure functions from an
observation to findings, and `bundle` packs what a bug report needs.
"""

from fedhpa.doctor.bundle import check_bundle, write_bundle
from fedhpa.doctor.diagnosis import diagnose
from fedhpa.doctor.examination import ANSWER_SECONDS, examine
from fedhpa.doctor.findings import WHY, Finding, NotChecked, Report
from fedhpa.doctor.observations import Hub, Observation

__all__ = [
    "ANSWER_SECONDS",
    "WHY",
    "Finding",
    "Hub",
    "NotChecked",
    "Observation",
    "Report",
    "check_bundle",
    "diagnose",
    "examine",
    "write_bundle",
]
