"""Code that real and embedded planes share: a run's folder and programs, a plain API client, and the
product's three processes.
"""

from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.control import COMMANDS, add_commands, carry_out, ready_pods
from testbed.stage.kubeconfig import by_certificate, write_kubeconfig
from testbed.stage.ports import free_port, held
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.registrations import (
    MEMBER_USER,
    NAMESPACE,
    Credentials,
    aggregated_api,
    cluster_objects,
    documents,
    member_rights,
)
from testbed.stage.runs import Run, StartFailed, reap
from testbed.stage.up import hold, say
from testbed.stage.waiting import NotInTime, eventually, gather
