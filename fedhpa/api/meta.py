"""Metadata of objects: the part of metav1 that our kinds carry."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedhpa.api.model import (
    MAX_CLUSTERS,
    ApiModel,
    Bool,
    Crd,
    Int64,
    Item,
    Kind,
    LongText,
    Name,
    Text,
    Time,
    Uid,
)

Plain = Annotated[dict[str, Item], Kind("map[string]string", {"type": "object"})]


class OwnerReference(ApiModel):
    """metav1.OwnerReference."""

    go_package: ClassVar[str] = "v1"

    api_version: Text = ""
    kind: Text = ""
    name: Text = ""
    uid: Uid = ""
    controller: Bool | None = None
    block_owner_deletion: Bool | None = None


class ManagedFieldsEntry(ApiModel):
    """metav1.ManagedFieldsEntry."""

    go_package: ClassVar[str] = "v1"

    manager: Text = ""
    operation: Text = ""
    api_version: Text = ""
    time: Time | None = None
    fields_type: Text = ""
    fields_v1: Annotated[dict[str, Any] | None, Field(alias="fieldsV1")] = None
    subresource: Text = ""


class ObjectMeta(ApiModel):
    """metav1.ObjectMeta: what is read of it, and what admission checks."""

    go_package: ClassVar[str] = "v1"

    name: Text = ""
    generate_name: Text = ""
    namespace: Text = ""
    uid: Uid = ""
    resource_version: Text = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Plain = Field(default_factory=dict)
    annotations: Plain = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[Item, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class LabelSelectorRequirement(ApiModel):
    """metav1.LabelSelectorRequirement."""

    go_package: ClassVar[str] = "v1"
    required: ClassVar[tuple[str, ...]] = ("key", "operator")

    key: LongText = Field("", description="The label the requirement applies to.")
    operator: LongText = Field("", description="In, NotIn, Exists or DoesNotExist.")
    values: Annotated[
        tuple[Item, ...], Crd({"maxItems": MAX_CLUSTERS, "x-kubernetes-list-type": "atomic"})
    ] = Field((), description="Values for In and NotIn.")


class LabelSelector(ApiModel):
    """metav1.LabelSelector."""

    go_package: ClassVar[str] = "v1"

    match_labels: Annotated[dict[str, Item], Crd({"maxProperties": 64})] = Field(
        default_factory=dict, description="Labels with exactly these values; all must hold."
    )
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Crd({"maxItems": 64, "x-kubernetes-list-type": "atomic"})
    ] = Field((), description="Requirements; all must hold.")


class TypedObject(ApiModel):
    """An object of a kind: what every one of them has."""

    api_version: Text = ""
    kind: Text = ""
    metadata: ObjectMeta = Field(default_factory=lambda: ObjectMeta())


class ObjectReference(ApiModel):
    """The name of an object in a namespace, as Clusters name their Secrets."""

    required: ClassVar[tuple[str, ...]] = ("name", "namespace")

    namespace: Name = Field("", description="The namespace of the object.")
    name: Name = Field("", description="The name of the object.")
