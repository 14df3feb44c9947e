"""The controller: gathers one snapshot a FederatedHPA and period, decides, applies.

`reconcile` is the thin shell around `fedhpa.decision.decide`: `candidates` says which clusters count,
`gather` reads them, `scaling` and `publish` write. Everything a user asks later is in the decision.
"""
