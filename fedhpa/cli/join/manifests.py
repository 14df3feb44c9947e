"""The manifests of `fedhpa join --print`: one part for the member, one for the hub, both without a token."""

from __future__ import annotations

from fedhpa.api import membership
from fedhpa.api.rights import Manifest
from fedhpa.cli.hub_client import MEMBER
from fedhpa.cli.join.registration import Wanted, address_of, config_of

MEMBER_TITLE = """\
# Part of the member {name}: apply it there.
# Each Secret gets a token that does not expire. Nobody renews it."""
HUB_TITLE = """\
# Part of the hub: apply it there. Its Secrets still need the key token, which is not printed.
# Write it with the next commands, or seal the values and add them to these Secrets in your repository:"""
COMMAND = """
#   kubectl -n {namespace} patch secret {secret} -p "{{\\"data\\":{{\\"token\\":\\"$(kubectl \
--context=MEMBER -n {namespace} get secret {token} -o jsonpath='{{.data.token}}')\\"}}}}\""""


async def parts(wanted: Wanted) -> list[tuple[str, list[Manifest]]]:
    """Returns title and manifests of both parts. Reads the member's kubeconfig only. Raises ConfigError."""
    config = await config_of(MEMBER, wanted.member)
    notes: list[str] = []
    address = address_of(wanted, config, notes.append)
    name, namespace = wanted.name, wanted.namespace
    commands = [
        COMMAND.format(
            namespace=namespace,
            secret=membership.secret_name(name, account),
            token=membership.token_secret(account),
        )
        for account in membership.ACCOUNTS
    ]
    hub = [
        membership.hub_namespace(namespace),
        *(membership.credentials(name, namespace, address, account=one) for one in membership.ACCOUNTS),
        *membership.secret_rights(name, namespace, wanted.controller, wanted.adapter),
        membership.cluster(name, namespace, address),
    ]
    member = membership.member_part(namespace, wanted.switches)
    remarks = "".join(f"\n# {note}" for note in notes)
    return [
        (MEMBER_TITLE.format(name=name), [*member, *membership.lasting_tokens(namespace)]),
        (HUB_TITLE + "".join(commands) + remarks, hub),
    ]
