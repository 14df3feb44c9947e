"""The metric types: one module a type, with its source, its rules, and how it is evaluated.

`table` lists them. It stands below the model of a FederatedHPA, which has a field for each type. What several
types share is beside them: `metric` (what a type is, and what it reads of the clusters), `sources` (parts of
sources), `usage` (metrics.k8s.io) and `series` (metrics that are named).
"""
