"""The manifests of `fedhpa join --print`: one part for the member, one for the hub, both without a token."""

from __future__ import annotations

from fedhpa.api import membership
from fedhpa.api.rights import Manifest
from fedhpa.cli.join.registration import CLUSTER, Wanted, address_of, config_of

MEMBER_TITLE = """\
# Part of the member {name}: apply it there.
# Secret {token} gets a token that does not expire. Nobody renews it."""
HUB_TITLE = """\
# Part of the hub: apply it there. Secret {secret} still needs the key token, which is not printed.
# Write it with the next command, or seal the value and add it to this Secret in your repository:
#   kubectl -n {namespace} patch secret {secret} -p "{{\\"data\\":{{\\"token\\":\\"$(kubectl \
--context=MEMBER -n {namespace} get secret {token} -o jsonpath='{{.data.token}}')\\"}}}}\""""


async def parts(wanted: Wanted) -> list[tuple[str, list[Manifest]]]:
    """Returns title and manifests of both parts. Reads the member's kubeconfig only. Raises ConfigError."""
    config = await config_of(CLUSTER, wanted.member)
    notes: list[str] = []
    address = address_of(wanted, config, notes.append)
    name, namespace = wanted.name, wanted.namespace
    words = {
        "name": name,
        "namespace": namespace,
        "secret": membership.secret_name(name),
        "token": membership.TOKEN_SECRET,
    }
    hub = [
        membership.hub_namespace(namespace),
        membership.credentials(name, namespace, address),
        *membership.secret_rights(name, namespace, wanted.controller, wanted.adapter),
        membership.cluster(name, namespace, address),
    ]
    member = membership.member_part(namespace, wanted.switches)
    remarks = "".join(f"\n# {note}" for note in notes)
    return [
        (MEMBER_TITLE.format(**words), [*member, membership.lasting_token(namespace)]),
        (HUB_TITLE.format(**words) + remarks, hub),
    ]
