"""The CustomResourceDefinitions, as the chart has them.

Those of group autoscaling.karmada.io are generated from the models (`testbed.reference.definitions`); the
others are written by hand. The files beside this module are links to charts/fedhpa/files/crds, and the files
themselves in a wheel.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any, Final

from fedhpa.api.yaml import read_own_yaml

# The names of the CRDs.
FEDERATED_HPA: Final = "federatedhpas.autoscaling.karmada.io"
CRON_FEDERATED_HPA: Final = "cronfederatedhpas.autoscaling.karmada.io"
CLUSTER: Final = "clusters.cluster.karmada.io"
SCALING_RECORD: Final = "scalingrecords.fedhpa.io"
PLACEMENT: Final = "placements.fedhpa.io"
RECORDS: Final = (SCALING_RECORD, PLACEMENT)


def custom_resource_definition(name: str) -> dict[str, Any]:
    """Returns the CustomResourceDefinition (apiextensions.k8s.io/v1) of a name."""
    return copy.deepcopy(_of_group(name.partition(".")[2])[name])


def text_of(*groups: str) -> str:
    """Returns the CRDs of API groups as YAML."""
    return "".join(_file(group).read_text(encoding="utf-8") for group in groups)


def _file(group: str) -> Path:
    return Path(__file__).with_name(f"{group}.yaml")


@cache
def _of_group(group: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in read_own_yaml(_file(group))}
