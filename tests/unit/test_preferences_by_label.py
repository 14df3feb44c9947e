"""The index by label selects the same preferences as comparing each with every cluster."""

from __future__ import annotations

import random
from typing import Any

from fedhpa.api.affinity import Selection
from fedhpa.api.cluster_affinity import ClusterAffinity
from fedhpa.api.decode import decode
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.decision.spec import PlacementPreference, PlacementSpec

AFFINITIES: list[dict[str, Any]] = [
    {"clusterNames": ["m1", "m7", "gone"]},
    {"exclude": ["m2"], "labelSelector": {"matchLabels": {"cell": "a"}}},
    {"labelSelector": {"matchLabels": {"cell": "b", "tier": "edge"}}},
    {"labelSelector": {"matchExpressions": [{"key": "cell", "operator": "In", "values": ["b", "c"]}]}},
    {"labelSelector": {"matchExpressions": [{"key": "cell", "operator": "NotIn", "values": ["a"]}]}},
    {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    {"labelSelector": {}},
]


def test_first_preference_that_selects_a_cluster_holds() -> None:
    """The results agree for random preferences, orders and clusters."""
    rng = random.Random(1)
    selections = [Selection(decode(ClusterAffinity, affinity)) for affinity in AFFINITIES]
    for _ in range(200):
        preferences = tuple(
            PlacementPreference(selection, weight)
            for weight, selection in enumerate(rng.choices([*selections, None], k=rng.randrange(6)))
        )
        clusters = [
            KnownCluster(
                f"m{number}",
                {key: rng.choice(["a", "b", "c", "edge"]) for key in rng.sample(["cell", "tier"], 1)},
            )
            for number in range(8)
        ]
        expected = {}
        for cluster in clusters:
            for preference in preferences:
                if preference.selection is None or preference.selection.selects(cluster):
                    expected[cluster.name] = preference
                    break

        assert PlacementSpec(preferences=preferences).preferred(clusters) == expected
