"""Reconciles FederatedHPAs of mode Centralized.

A reconcile builds one snapshot of the hub and the members (`snapshot`), calls the pure
`fedhpa.decision.decide` (`reconciler`), has its writes carried out (`controller.apply`), and shows the result
(`publication`).
`one_shot` runs the reading half for commands such as `fedhpa preview`.
"""

from controller.federatedhpa.cluster_reader import MemberCaches
from controller.federatedhpa.one_shot import one_shot_reader, read_recording, settings_for
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.federatedhpa.snapshot import SnapshotBuilder
