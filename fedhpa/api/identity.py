"""The identity of a cluster: the UID of its namespace kube-system, as the member itself answers.

Names and addresses are what people gave it. One cluster may be registered under two names, and a rebuilt one
may have the name of the old one. `Cluster.spec.id` counts only where the UID cannot be read, because it is
copied with manifests.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Final, NamedTuple

from fedhpa.api.names import label_value

IDENTITY_PATH: Final = "/api/v1/namespaces/kube-system"

# With whole UIDs, the state of 300 clusters that help each other would exceed its bound of 48 KiB. 32 bits
# tell apart the few clusters that had one name.
SHORT_BYTES: Final = 4


def valid_uid(text: str) -> str:
    """Returns a UID that is fit for messages and records; "" for any other text."""
    return "" if label_value(text) else text


def short_uid(uid: str) -> str:
    """Returns a hash of a UID for records; "" for none."""
    return blake2b(uid.encode(), digest_size=SHORT_BYTES).hexdigest() if uid else ""


class Claim(NamedTuple):
    """A registered name for a cluster. `created` is the time of its registration, as the API writes it.

    `rank` is the place of its source among the sources of members.
    """

    name: str
    uid: str
    answers: bool
    created: str
    rank: int = 0


def duplicates_of(claims: Collection[Claim]) -> dict[str, str]:
    """Returns the names that do not count because another one of the same UID does, with that other name.

    Of the names of one UID that of the first source counts, then the one that answers, of several that answer
    the oldest. Names with unknown UID all count.
    """
    counts: dict[str, Claim] = {}
    for one in claims:
        known = counts.setdefault(one.uid, one)
        if _order(one) < _order(known):
            counts[one.uid] = one
    return {one.name: counts[one.uid].name for one in claims if one.uid and counts[one.uid] is not one}


def _order(claim: Claim) -> tuple[int, bool, str, str]:
    return claim.rank, not claim.answers, claim.created, claim.name
