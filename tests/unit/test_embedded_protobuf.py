"""Kubernetes' protobuf as kubectl sends it: what is read, and what is refused rather than half understood."""

import pytest

from testbed.embedded.api import protobuf
from testbed.embedded.api.types import Refusal

# `kubectl create configmap x --from-literal=a=b`, as kubectl 1.32 sent it.
CONFIGMAP = bytes.fromhex(
    "6b3873000a0f0a0276311209436f6e6669674d6170"
    "121b0a110a017812001a0022002a003200380042001206"
    "0a01611201621a002200"
)


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def message(kind: str, body: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, b"v1") + field(2, kind.encode())) + field(2, body)


def test_what_kubectl_sends_is_read() -> None:
    """A ConfigMap, without the empty texts that Go writes."""
    assert protobuf.decode(CONFIGMAP) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"a": "b"},
    }


def test_bytes_become_base64_and_numbers_numbers() -> None:
    """As they are in JSON: a Secret's data, a token's lifetime, a list of texts."""
    secret = protobuf.decode(message("Secret", field(2, field(1, b"key") + field(2, b"\xff"))))
    spec = field(1, b"one") + field(1, b"two") + b"\x20\x90\x1c"
    token = protobuf.decode(message("TokenRequest", field(2, spec)))

    assert secret["data"] == {"key": "/w=="}
    assert token["spec"] == {"audiences": ["one", "two"], "expirationSeconds": 3600}


@pytest.mark.parametrize(
    "body",
    [
        message("Deployment", b""),
        message("Namespace", field(15, b"x")),
        message("Namespace", field(1, field(13, b"an owner"))),
        CONFIGMAP[:-8],
        b"k8s\x00",
        b"k8s\x00\xff",
        b"k8s\x00\x0d",
    ],
    ids=["kind", "field", "inner field", "cut off", "empty", "half a number", "wire type"],
)
def test_what_is_not_known_is_refused(body: bytes) -> None:
    """With 415: nothing of an object may be lost in silence."""
    with pytest.raises(Refusal) as caught:
        protobuf.decode(body)

    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


def test_what_is_no_protobuf_is_said_to_be_none() -> None:
    """With 400."""
    with pytest.raises(Refusal, match="does not appear to be a protobuf message") as caught:
        protobuf.decode(b"{}")

    assert caught.value.code == 400
