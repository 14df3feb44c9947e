"""The finalizers by which a deleted Cluster waits until its replicas run elsewhere (--propagation=direct).

Each shard of the controller has one of its own, because only its leader knows the shard's objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NAME: Final = re.compile(r"fedhpa\.io/replicas-leave-\d{1,4}-of-(\d{1,4})")
# A deleted Cluster waits no longer.
MAX_WAIT_SECONDS: Final = 3600.0


def replicas_finalizer(index: int, count: int) -> str:
    """Returns the finalizer of one of `count` shards."""
    return f"fedhpa.io/replicas-leave-{index}-of-{count}"


def own_finalizers(finalizers: Iterable[str] | None, *, other_than: int = 0) -> list[str]:
    """Returns the finalizers that are ours; with `other_than` those of other numbers of shards."""
    found = [(name, _NAME.fullmatch(name)) for name in finalizers or ()]
    return [name for name, match in found if match is not None and int(match[1]) != other_than]
