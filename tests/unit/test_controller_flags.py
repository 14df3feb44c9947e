"""The controller's flags, their defaults, and the messages about wrong ones."""

from __future__ import annotations

import sys
from inspect import signature

import pytest

from controller import process
from controller.flags import CONTROLLERS, PROPAGATION, SECTIONS, Settings
from controller.shards import BY_NAMESPACE, CRON, Division, Shard
from fedhpa.api.rights import Switches
from fedhpa.cli.join import join
from fedhpa.cli.rbac import rbac
from fedhpa.serving.flags.parsing import parse_flags
from testbed.reference import chart as reference
from webhook import settings as webhook

WRONG = {
    "--controllers=everything": (
        '--controllers="everything": invalid value: expected federatedhpa, cronfederatedhpa, or both'
    ),
    "--controllers=": '--controllers="": invalid value: expected federatedhpa, cronfederatedhpa, or both',
    "--controllers=federatedhpa,cron": ("invalid value: expected federatedhpa, cronfederatedhpa, or both"),
    "--propagation=push": '--propagation="push": invalid value: expected one of karmada, direct',
    "--metrics-via=hearsay": '--metrics-via="hearsay": invalid value: expected one of members, hub',
    "--shards=0": '--shards="0": invalid value: expected a whole number, at least 1',
    "--shards=few": '--shards="few": invalid value: expected a whole number, at least 1',
    "--concurrent-syncs=0": '--concurrent-syncs="0": invalid value: expected a whole number, at least 1',
    "--cluster-lost-timeout=soon": '--cluster-lost-timeout="soon": invalid value: expected a duration',
    "--cluster-lost-timeout=-1s": '--cluster-lost-timeout="-1s": invalid value: expected a duration',
    "--member-deadline=0s": '--member-deadline="0s": invalid value: expected a duration',
    "--member-deadline=3": '--member-deadline="3": invalid value: expected a duration',
    "--pause=perhaps": '--pause="perhaps": invalid value: expected true or false',
    "--horizontal-pod-autoscaler-sync-period=10ms": "expected a duration",
    "--horizontal-pod-autoscaler-tolerance=-0.1": "expected a number, at least 0",
    "--horizontal-pod-autoscaler-tolerance=nan": "expected a number, at least 0",
    "--leader-elect-lease-duration=5s": (
        "--leader-elect-lease-duration: needed: lease duration > renew deadline > 1.2 x retry period > 0"
    ),
    "--health-probe-bind-address=nowhere": '--health-probe-bind-address="nowhere": invalid value',
    "--sync-period=1s": "--sync-period",
}


@pytest.mark.parametrize(("flag", "says"), WRONG.items())
def test_wrong_flag_ends_with_two(
    flag: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr names the flag, its value and what is expected; the exit code is 2."""
    monkeypatch.setattr(sys, "argv", ["fedhpa-controller", flag])

    with pytest.raises(SystemExit) as ended:
        process.main()

    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.startswith("fedhpa-controller: ")
    assert err.count("\n") == 1
    assert flag.partition("=")[0] in err
    assert says in err


def test_defaults_are_karmadas() -> None:
    """The defaults are Karmada's wherever Karmada has the setting."""
    values = parse_flags(SECTIONS, [], {})
    settings = Settings.of(values)

    assert values[CONTROLLERS] == ("federatedhpa", "cronfederatedhpa")
    assert settings.sync_period == 15.0
    assert settings.member_deadline == 3.0
    assert not settings.paused
    assert settings.decision.tolerance == 0.1
    assert settings.decision.downscale_stabilization == 300.0
    assert settings.decision.cluster_lost_timeout == 300.0


def test_one_propagation_is_the_default_everywhere() -> None:
    """Controller, webhook, chart, `fedhpa rbac` and `fedhpa join` agree if nothing is set."""
    chart = reference.schema()["properties"]["propagation"]["default"]
    flags = (
        parse_flags(SECTIONS, [], {})[PROPAGATION],
        parse_flags(webhook.FLAGS, [], {})[webhook.PROPAGATION],
    )
    commands = [signature(one).parameters["propagation"].default for one in (rbac, join)]

    assert {chart, *flags, *commands, Switches().propagation} == {"direct"}


def test_flags_reach_the_settings() -> None:
    """Flags from the command line and the environment end up in the settings."""
    argv = [
        "--propagation=direct",
        "--concurrent-syncs=9",
        "--pause",
        "--member-deadline=500ms",
        "--horizontal-pod-autoscaler-sync-period=30s",
        "--horizontal-pod-autoscaler-tolerance=0.2",
        "--horizontal-pod-autoscaler-cpu-initialization-period=1m",
        "--horizontal-pod-autoscaler-initial-readiness-delay=5s",
        "--horizontal-pod-autoscaler-upscale-delay=1m",
        "--cluster-lost-timeout=90s",
    ]
    environ = {"FEDHPA_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION": "2m"}

    settings = Settings.of(parse_flags(SECTIONS, argv, environ))

    assert (settings.propagation, settings.concurrent_syncs, settings.paused) == ("direct", 9, True)
    assert (settings.sync_period, settings.member_deadline) == (30.0, 0.5)
    assert settings.decision.tolerance == 0.2
    assert settings.decision.downscale_stabilization == 120.0
    assert settings.decision.cpu_initialization_period == 60.0
    assert settings.decision.initial_readiness_delay == 5.0
    assert settings.decision.cluster_lost_timeout == 90.0


def test_lease_carries_the_number_of_shards() -> None:
    """Processes with different numbers of shards never share a Lease."""
    assert Shard().lease == "fedhpa-controller-0-of-1"
    assert Shard(0, Division(1, BY_NAMESPACE)) == Shard()
    assert Shard(2, Division(4, BY_NAMESPACE)).lease == "fedhpa-controller-2-of-4"
    assert Shard(2, Division(4)).lease == "fedhpa-controller-2-of-4-by-target"
    assert Shard(kind=CRON).lease == "fedhpa-controller-cron-0-of-1"
