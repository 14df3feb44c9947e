"""Reconciles FederatedHPAs of mode Centralized.

A reconcile builds one snapshot of the hub and the members (`snapshot`), calls the pure
`fedhpa.decision.decide` (`reconciler`), then writes scales and status (`scale_writes`, `status`).
`one_shot` runs the reading half for commands such as `fedhpa preview`.
"""
