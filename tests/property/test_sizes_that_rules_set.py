"""The size that a rule sets is divided exactly, and nothing goes to a cluster that gets nothing more."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from fedhpa.api.taints import CORDONED, LEAVING, MEMBER
from fedhpa.assignment import Host, apportion, spread

Hosts = Mapping[str, Host]
sizes = st.integers(0, 300)
memberships = st.sampled_from([MEMBER, CORDONED, LEAVING])
fleets = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2),
    st.builds(Host, st.integers(0, 60), memberships, st.booleans()),
    min_size=1,
    max_size=8,
)
answering = fleets.map(
    lambda hosts: {name: host._replace(answers=True) for name, host in hosts.items()}  # no silent cluster
)


def staying(hosts: Hosts) -> dict[str, Host]:
    return {name: host for name, host in hosts.items() if host.membership != LEAVING}


def takers(hosts: Hosts) -> set[str]:
    """The clusters that may get more: Members, without one the Cordoned ones, without those all."""
    for wanted in (MEMBER, CORDONED, LEAVING):
        found = {name for name, host in hosts.items() if host.membership == wanted}
        if found:
            return found
    raise AssertionError("no clusters")


@given(sizes, answering)
def test_the_sum_is_what_the_rule_says(size: int, hosts: Hosts) -> None:
    shares = spread(size, hosts)

    assert shares.keys() == hosts.keys()
    assert sum(shares.values()) == size
    assert min(shares.values()) >= 0


@given(sizes, fleets)
@example(6, {"a": Host(3, MEMBER, answers=False), "b": Host(1, CORDONED)})
def test_only_those_that_may_grow_get_more(size: int, hosts: Hosts) -> None:
    """Also while clusters are silent."""
    shares = spread(size, hosts)

    assert {name for name, share in shares.items() if share > hosts[name].replicas} <= takers(hosts)


@given(sizes, fleets)
def test_silent_clusters_count_with_what_they_had(size: int, hosts: Hosts) -> None:
    """The sum differs from the size only where a silent cluster has too much, or none that grows answers."""
    shares = spread(size, hosts)
    silent = sum(host.replicas for host in hosts.values() if not host.answers)
    total = silent + sum(shares.values())

    assert shares.keys() == {name for name, host in hosts.items() if host.answers}
    if total < size:
        assert not takers(hosts) & shares.keys()
    if total > size:
        assert silent > 0


@given(sizes, fleets)
def test_no_cluster_falls_below_its_part_for_a_silent_one(size: int, hosts: Hosts) -> None:
    if all(host.answers for host in hosts.values()):
        return
    kept = staying(hosts) or hosts
    part = apportion(size, dict.fromkeys(kept, 1))

    for name, share in spread(size, hosts).items():
        if name in kept:
            assert share >= min(hosts[name].replicas, part[name])


@given(sizes, answering)
def test_leaving_clusters_shrink_before_the_others_together_do(size: int, hosts: Hosts) -> None:
    """Replicas go from the others only once none is left that leaves."""
    shares, others = spread(size, hosts), staying(hosts)
    if others and any(shares[name] for name in hosts.keys() - others.keys()):
        assert sum(shares[name] for name in others) >= sum(host.replicas for host in others.values())


@given(sizes, answering)
def test_members_have_equal_parts(size: int, hosts: Hosts) -> None:
    """They differ by one at most."""
    shares = [share for name, share in spread(size, hosts).items() if hosts[name].membership == MEMBER]

    assert not shares or max(shares) - min(shares) <= 1


@given(sizes, fleets)
def test_the_order_of_clusters_is_irrelevant(size: int, hosts: Hosts) -> None:
    turned_around = dict(reversed(list(hosts.items())))

    assert spread(size, turned_around) == spread(size, hosts)


@given(sizes, fleets)
def test_a_second_try_changes_nothing(size: int, hosts: Hosts) -> None:
    """An execution that is open is tried again each minute."""
    shares = spread(size, hosts)
    after = {
        name: host._replace(replicas=shares[name]) if host.answers else host for name, host in hosts.items()
    }

    assert spread(size, after) == shares
