"""Serving code of all processes: flags, TLS, health, Prometheus metrics, authentication and access review."""

from fedhpa.serving.authorization import review_problem
from fedhpa.serving.certificates import ClientVerifier, common_name, names_of
from fedhpa.serving.connections import is_trusted
from fedhpa.serving.health import Health, ReadinessCheck
from fedhpa.serving.peers import Peers
from fedhpa.serving.process import (
    Garbage,
    Signals,
    first_reported,
    hub_config,
    quick_loop,
    run_program,
)
from fedhpa.serving.process_series import CallerSeries, ProcessSeries, counter, register_certificate
from fedhpa.serving.server import RowGauge, TlsServer, access_log, http_listeners, metrics_route
from fedhpa.serving.tls import ServingTls, TlsFiles, peer_certificate
from fedhpa.serving.trust import LiveTrust, TrustFiles
