"""The metrics store as the flags describe it; imported only where there is one, for its weight."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from fedhpa.serving.flags.types import Values
from metrics_adapter.members.gather import MembersSource
from metrics_adapter.prometheus import settings as flags
from metrics_adapter.prometheus.access import StoreAccess
from metrics_adapter.prometheus.ruled import RuledSource
from metrics_adapter.prometheus.rules_file import RulesFile
from metrics_adapter.prometheus.store import Store
from metrics_adapter.prometheus.telemetry import StoreTelemetry


class StoreParts:
    """The store, its rules and the source over them, as the flags say. Raises ConfigError."""

    def __init__(self, values: Values, members: MembersSource, registry: CollectorRegistry) -> None:
        telemetry = StoreTelemetry(registry)
        access = StoreAccess(
            values[flags.URL],
            values[flags.CA_FILE],
            values[flags.TOKEN_FILE],
            values[flags.USERNAME],
            values[flags.PASSWORD_FILE],
            values[flags.TENANT],
        )
        access.check()
        self.rules = RulesFile(Path(values[flags.RULES]), telemetry)
        deadline = values[flags.DEADLINE]
        self.store = Store(access, deadline=deadline, max_age=members.max_age, telemetry=telemetry)
        self.source = RuledSource(members, self.store, self.rules, telemetry)
