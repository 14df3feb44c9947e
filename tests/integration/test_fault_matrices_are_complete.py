"""The tests of webhook, adapter and controller cover every fault of the embedded plane."""

from __future__ import annotations

import pytest

from tests.integration import (
    test_fault_matrix_adapter,
    test_fault_matrix_controller,
    test_fault_matrix_webhook,
)
from tests.support.plane_faults import GONE, TLS, Fault

# These faults need metrics or a Cluster object, and a hub has neither.
OF_MEMBERS = {Fault.NAN, Fault.NEGATIVE, Fault.DISAPPEAR}
OF_PATHS = set(Fault) - OF_MEMBERS - GONE - TLS


@pytest.mark.parametrize(
    "rows",
    [
        test_fault_matrix_adapter.HUB_ROWS,
        test_fault_matrix_controller.HUB_ROWS,
        test_fault_matrix_webhook.HUB_ROWS,
    ],
    ids=["adapter", "controller", "webhook"],
)
def test_every_fault_of_the_hub_is_there(rows: list[tuple[Fault, str]]) -> None:
    """Each fault of the hub has one row."""
    assert sorted(set(Fault) - OF_MEMBERS) == sorted(fault for fault, _ in rows)


def test_every_fault_of_a_member_is_there() -> None:
    """The adapter and the controller have each fault. The adapter has a test of its own for a member that
    disappears.
    """
    adapter = {row.fault for row in test_fault_matrix_adapter.ROWS}
    controller = {row.fault for row in test_fault_matrix_controller.ROWS}

    assert adapter == set(Fault) - {Fault.DISAPPEAR}
    assert controller == set(Fault)


@pytest.mark.parametrize("where", ["METRICS", "PODS", "SCALE"])
def test_every_fault_of_a_path_is_there(where: str) -> None:
    """Each of the three reads of the controller from a member has every fault."""
    path = getattr(test_fault_matrix_controller, where)

    assert {row.fault for row in test_fault_matrix_controller.ROWS if row.where == path} == OF_PATHS
