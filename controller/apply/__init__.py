"""Carries out plans. Nothing else in the product writes a scale, a HorizontalPodAutoscaler or a placement.

- `plan`: sends the typed writes of a plan, batch by batch.
- `scales`: the replicas of one scale, and the bounds that a rule sets on a FederatedHPA.
- `member_hpas`: HPAs by the members' own clients (--propagation=direct).
- `kept`: the objects of a placement, which are kept equal to what was decided.
- `works`, `template`: HPAs by Karmada's Works, and the hold of their workload (--propagation=karmada).
"""
