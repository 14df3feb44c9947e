"""A real Prometheus behind TLS and a password, which scrapes exporters of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

from certs import CertificateAuthority
from testbed.stage.ports import free_port
from testbed.stage.runs import Run

PROMETHEUS = "prometheus"
USER, PASSWORD = "admin", "test"
# bcrypt of "test". The password protects only this Prometheus.
PASSWORD_HASH = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"


class Exporter:
    """The series that one cluster exports while it exists."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listens, on the previous port if there was one."""
        application = web.Application()
        application.add_routes([web.get("/metrics", self._metrics)])
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port or free_port())
        await site.start()
        self.port = site._port

    async def stop(self) -> None:
        """Stops listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.text, content_type="text/plain")


class Prometheus:
    """The server and the exporters that it scrapes every second, each with its cluster as a label."""

    def __init__(
        self, url: str, ca_file: Path, password_file: Path, exporters: Mapping[str, Exporter]
    ) -> None:
        self.url = url
        self.ca_file = ca_file
        self.password_file = password_file
        self.exporters = exporters

    @property
    def flags(self) -> list[str]:
        """The adapter's flags for this Prometheus."""
        return [
            "--metrics-source=prometheus",
            f"--metrics-store-url={self.url}",
            f"--metrics-store-ca-file={self.ca_file}",
            f"--metrics-store-username={USER}",
            f"--metrics-store-password-file={self.password_file}",
        ]


@asynccontextmanager
async def prometheus(
    program: Path, texts: Mapping[str, str], *, processes: Collection[int] = ()
) -> AsyncIterator[Prometheus]:
    """Yields a Prometheus over exporters with these texts, by cluster, and over the ports of processes."""
    run = Run.begin()
    exporters = {cluster: Exporter(text) for cluster, text in texts.items()}
    try:
        for exporter in exporters.values():
            await exporter.start()
        port = free_port()
        folder = run.folder
        targets = {name: one.port for name, one in exporters.items()}
        command = _command(program, folder, port, targets, processes)
        run.spawn(PROMETHEUS, command, folder / "log")
        url = f"https://127.0.0.1:{port}"
        yield Prometheus(url, folder / "ca.crt", folder / "password", exporters)
        run.check(PROMETHEUS, folder / "log")
    finally:
        # Open requests of Prometheus would keep the exporters from closing.
        await asyncio.to_thread(run.end)
        for exporter in exporters.values():
            await exporter.stop()


def _command(
    program: Path, folder: Path, port: int, targets: Mapping[str, int], processes: Collection[int]
) -> list[str]:
    authority = CertificateAuthority.create("store-ca")
    authority.issue_server("store", dns=["localhost"], ips=["127.0.0.1"]).save(folder)
    (folder / "ca.crt").write_bytes(authority.bundle_pem)
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    static = [
        {"targets": [f"127.0.0.1:{target}"], "labels": {"cluster": cluster}}
        for cluster, target in targets.items()
    ]
    ports = {"targets": [f"127.0.0.1:{number}" for number in processes]}
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "clusters", "static_configs": static},
            {"job_name": "processes", "honor_labels": True, "static_configs": [ports]},
        ],
    }
    web_config = {
        "tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"},
        "basic_auth_users": {USER: PASSWORD_HASH},
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "web.yaml").write_text(yaml.safe_dump(web_config), encoding="utf-8")
    return [
        str(program),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--web.config.file={folder / 'web.yaml'}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--log.level=warn",
    ]
