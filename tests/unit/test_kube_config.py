"""Loading a kubeconfig or a service account: the server, the credentials, and the errors."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from fedhpa.api.errors import ConfigError
from fedhpa.kube import SYSTEM
from fedhpa.kube import config as kube_config
from fedhpa.kube.config import load_config
from fedhpa.kube.credentials import FileToken, PluginCredentials


def kubeconfig(folder: Path, *, user: Any = None, **cluster: Any) -> str:
    """A kubeconfig with one context named `main` and one named `other`."""
    path = folder / "kubeconfig"
    main = {"server": "https://10.0.0.1:6443/", **cluster}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": main},
            {"name": "d", "cluster": {"server": "http://10.0.0.2:8080"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "other", "context": {"cluster": "d", "user": "u"}},
        ],
        "current-context": "main",
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def ca_data() -> str:
    return base64.b64encode(trustme.CA().cert_pem.bytes()).decode()


async def test_server_namespace_and_token(tmp_path: Path) -> None:
    """The current context gives server, namespace and token; the token is in no repr."""
    path = kubeconfig(tmp_path, user={"token": "s3cret"}, **{"certificate-authority-data": ca_data()})

    config = await load_config(path, clock=SYSTEM)

    assert (config.server, config.namespace) == ("https://10.0.0.1:6443", "team")
    assert config.ssl is not None
    assert await config.credentials.authorization() == "Bearer s3cret"
    assert "s3cret" not in repr(config)


async def test_another_context(tmp_path: Path) -> None:
    """`context` overrides the current context; plain http has no TLS."""
    config = await load_config(kubeconfig(tmp_path), "other", clock=SYSTEM)

    assert (config.server, config.ssl, config.namespace) == ("http://10.0.0.2:8080", None, "default")


async def test_proxy_and_server_name(tmp_path: Path) -> None:
    """proxy-url and tls-server-name are used."""
    path = kubeconfig(tmp_path, **{"proxy-url": "http://proxy:3128", "tls-server-name": "api.example"})

    config = await load_config(path, clock=SYSTEM)

    assert (config.proxy, config.server_hostname) == ("http://proxy:3128", "api.example")


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """tokenFile is relative to the kubeconfig, its newline is removed, and a rotation is noticed."""
    (tmp_path / "token").write_text("first\n")
    config = await load_config(kubeconfig(tmp_path, user={"tokenFile": "token"}), clock=SYSTEM)
    first = await config.credentials.authorization()
    (tmp_path / "token").write_text("second\n")

    renewed = await config.credentials.renew()

    assert (first, renewed) == ("Bearer first", True)
    assert await config.credentials.authorization() == "Bearer second"


async def test_a_token_file_by_time(tmp_path: Path) -> None:
    """Without a 401 the file is read once a minute; if it is missing, the last token stays in use."""
    now = 0.0
    path = tmp_path / "token"
    path.write_text("first")
    token = FileToken(path, clock=lambda: now)
    seen = [await token.authorization()]
    path.write_text("second")
    for now in (59.0, 60.0):  # noqa: B007  # the clock reads it
        seen.append(await token.authorization())
    path.unlink()
    now = 200.0
    seen.append(await token.authorization())

    assert seen == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


async def test_an_exec_plugin(tmp_path: Path) -> None:
    """A plugin's token is used, and the plugin runs again after a 401."""
    counter = tmp_path / "count"
    plugin = tmp_path / "plugin.sh"
    plugin.write_text(
        f"""#!/bin/sh
echo x >> {counter}
n=$(wc -l < {counter})
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t'$n'"}}}}'
"""
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    config = await load_config(kubeconfig(tmp_path, user={"exec": execution}), clock=SYSTEM)

    first = await config.credentials.authorization()
    renewed = await config.credentials.renew()

    assert (first, renewed) == ("Bearer t1", True)
    assert await config.credentials.authorization() == "Bearer t2"


async def test_an_exec_plugin_that_fails(tmp_path: Path) -> None:
    """A plugin that fails at a renewal is an error. Its last token stays in use, and its expiry is kept."""
    plugin = tmp_path / "plugin.sh"
    status = '{"token":"t","expirationTimestamp":"2100-01-01T00:00:00Z"}'
    plugin.write_text(
        f"""#!/bin/sh
[ -e {tmp_path}/broken ] && exit 1
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'
"""
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    config = await load_config(kubeconfig(tmp_path, user={"exec": execution}), clock=SYSTEM)
    (tmp_path / "broken").touch()
    with pytest.raises(ConfigError, match=r"exec plugin .*plugin\.sh failed"):
        await config.credentials.renew()

    assert await config.credentials.authorization() == "Bearer t"
    assert isinstance(config.credentials, PluginCredentials)
    assert config.credentials._expiry == 4102444800.0


async def test_plugin_credentials_are_renewed_before_they_expire() -> None:
    """The plugin runs again one minute before the expiry."""
    now = 0.0
    answers: list[tuple[str | None, float | None]] = [("Bearer two", 900.0)]

    async def load() -> tuple[str | None, float | None]:
        return answers.pop(0)

    source = PluginCredentials(load, ("Bearer one", 300.0), wall=lambda: now)
    seen = []
    for now in (0.0, 239.0, 240.0, 300.0):  # noqa: B007  # the clock reads it
        seen.append(await source.authorization())

    assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]


async def test_a_missing_kubeconfig(tmp_path: Path) -> None:
    """The error names the missing file and the remedy."""
    with pytest.raises(ConfigError, match=r"absent: no such file: correct --kubeconfig"):
        await load_config(str(tmp_path / "absent"), clock=SYSTEM)


async def test_a_missing_context(tmp_path: Path) -> None:
    """The error names the missing context."""
    with pytest.raises(ConfigError, match="has no context 'nope': see `kubectl config get-contexts`"):
        await load_config(kubeconfig(tmp_path), "nope", clock=SYSTEM)


def one_file(path: Path, name: str, *, current: str | None, token: str, **user: Any) -> Path:
    """A kubeconfig with a context, a cluster and a user of this name, and the entries "shared"."""
    path.parent.mkdir(exist_ok=True)
    server = f"http://{path.parent.name}.example:8080"
    content: dict[str, Any] = {
        "clusters": [{"name": each, "cluster": {"server": server}} for each in (name, "shared")],
        "users": [{"name": each, "user": {"token": token, **user}} for each in (name, "shared")],
        "contexts": [{"name": each, "context": {"cluster": each, "user": each}} for each in (name, "shared")],
    }
    if current is not None:
        content["current-context"] = current
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("currents", "context", "server", "token"),
    [
        (("one", "two"), None, "http://first.example:8080", "Bearer 1"),
        ((None, "two"), None, "http://second.example:8080", "Bearer 2"),
        (("", "two"), None, "http://second.example:8080", "Bearer 2"),
        (("two", None), None, "http://second.example:8080", "Bearer 2"),
        (("one", "two"), "two", "http://second.example:8080", "Bearer 2"),
        (("shared", "two"), None, "http://first.example:8080", "Bearer 1"),
        ((None, "shared"), None, "http://first.example:8080", "Bearer 1"),
    ],
)
async def test_several_kubeconfigs_are_merged_as_kubectl_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    currents: tuple[str | None, str | None],
    context: str | None,
    server: str,
    token: str,
) -> None:
    """The first file to set a value or a map's key wins. Missing and empty files and items are skipped.

    The rules are those of "Organizing Cluster Access Using kubeconfig Files" of Kubernetes.
    """
    first = one_file(tmp_path / "first" / "config", "one", current=currents[0], token="1")
    second = one_file(tmp_path / "second" / "config", "two", current=currents[1], token="2")
    (tmp_path / "empty").write_text("")
    files = [str(tmp_path / "absent"), "", str(tmp_path / "empty"), str(first), str(second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))

    config = await load_config(None, context, clock=SYSTEM)

    assert (config.server, await config.credentials.authorization()) == (server, token)


async def test_entries_of_several_files_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user that the first file sets gets nothing from the second. Paths are relative to their file."""
    first = one_file(tmp_path / "first" / "config", "one", current="shared", token="1")
    second = one_file(tmp_path / "second" / "config", "two", current="two", token="2", tokenFile="token")
    (tmp_path / "second" / "token").write_text("from-file")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")

    shared, two = await load_config(None, clock=SYSTEM), await load_config(None, "two", clock=SYSTEM)

    assert await shared.credentials.authorization() == "Bearer 1"
    assert await two.credentials.authorization() == "Bearer from-file"
    assert set(shared.files) == {first, second}


async def test_a_broken_file_among_several_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for kubectl, a file that cannot be decoded is an error."""
    first = one_file(tmp_path / "first" / "config", "one", current="one", token="1")
    (tmp_path / "broken").write_text("- 1")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'broken'}")

    with pytest.raises(ConfigError, match=r"kubeconfig .*/broken: expected a mapping"):
        await load_config(None, clock=SYSTEM)


async def test_the_flag_names_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--kubeconfig is not a list, and nothing is merged with it."""
    first = one_file(tmp_path / "first" / "config", "one", current="one", token="1")
    second = one_file(tmp_path / "second" / "config", "two", current="two", token="2")
    monkeypatch.setenv("KUBECONFIG", str(first))

    assert (await load_config(str(second), clock=SYSTEM)).server == "http://second.example:8080"
    with pytest.raises(ConfigError, match="context 'one'"):
        await load_config(str(second), "one", clock=SYSTEM)
    with pytest.raises(ConfigError, match="no such file"):
        await load_config(f"{first}:{second}", clock=SYSTEM)


@pytest.mark.parametrize(
    "content",
    ["", "a: [b", "[]", "clusters: 7", "kind: Config\nclusters: []\ncontexts: []\ncurrent-context: x\n"],
)
async def test_an_invalid_kubeconfig(tmp_path: Path, content: str) -> None:
    """Each kind of invalid file gives an error of one line that names the file."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)

    with pytest.raises(ConfigError) as caught:
        await load_config(str(path), clock=SYSTEM)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "ftp://10.0.0.1"},
        {"server": "10.0.0.1:6443"},
        {"certificate-authority-data": "bm8gY2VydA=="},
        {"certificate-authority": "absent.crt"},
        {"proxy-url": "socks5://proxy:1080"},
    ],
)
async def test_an_unusable_cluster(tmp_path: Path, cluster: dict[str, str]) -> None:
    """A wrong URL, CA or proxy is refused when the file is loaded, and the error names the file."""
    with pytest.raises(ConfigError, match="kubeconfig"):
        await load_config(kubeconfig(tmp_path, **cluster), clock=SYSTEM)


async def testin_cluster_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod the service account's files and the environment give the configuration."""
    (tmp_path / "token").write_text("pod-token\n")
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "namespace").write_text("fedhpa-system\n")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    config = kube_config.in_cluster_config(SYSTEM, tmp_path)

    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "fedhpa-system")
    assert await config.credentials.authorization() == "Bearer pod-token"


async def test_in_cluster_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod without a mounted token the error names the field to set."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        kube_config.in_cluster_config(SYSTEM, tmp_path)


async def test_nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any configuration the error lists the ways to give one."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(ConfigError, match="--kubeconfig"):
        await load_config(None, clock=SYSTEM)
