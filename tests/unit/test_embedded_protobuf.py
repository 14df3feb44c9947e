"""The protobuf that kubectl sends to the embedded plane."""

import pytest

from testbed.embedded.api import protobuf
from testbed.embedded.api.types import StatusError

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


def test_an_object_of_kubectl_is_read() -> None:
    """The empty texts that Go writes are left out."""
    head = {"apiVersion": "v1", "kind": "ConfigMap"}

    assert protobuf.decode(CONFIGMAP) == {**head, "metadata": {"name": "x"}, "data": {"a": "b"}}


@pytest.mark.parametrize(
    "body",
    [
        message("Deployment", b""),
        message("Namespace", field(15, b"x")),
        CONFIGMAP[:-8],
        b"k8s\x00\x0d",
        b"{}",
    ],
    ids=["kind", "field", "cut off", "wire type", "JSON"],
)
def test_an_unknown_message_is_refused(body: bytes) -> None:
    """An unknown kind or field is 415, so no part of an object is lost silently."""
    with pytest.raises(StatusError) as caught:
        protobuf.decode(body)

    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
    assert "add --dry-run=client -o yaml to the command and pipe it into kubectl apply -f -" in str(
        caught.value
    )
