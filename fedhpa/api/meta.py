"""The parts of metav1 that the kinds of this project use."""

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
    LongText,
    ScalarType,
    Text,
    Time,
    Uid,
)

Plain = Annotated[dict[str, Item], ScalarType("map[string]string")]


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
    fields_v1: dict[str, Any] | None = None
    subresource: Text = ""


class ObjectMeta(ApiModel):
    """metav1.ObjectMeta: the fields that admission checks or a process reads."""

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
    """One requirement of a selector: a key, an operator and values."""

    go_package: ClassVar[str] = "v1"
    required: ClassVar[tuple[str, ...]] = ("key", "operator")

    key: LongText = ""
    """Label that the requirement checks; in a fieldSelector the field. Example: tier."""
    operator: LongText = ""
    """In, NotIn, Exists or DoesNotExist. A fieldSelector takes only In and NotIn. Example: In."""
    values: Annotated[tuple[Item, ...], Crd({"maxItems": MAX_CLUSTERS})] = ()
    """Values to compare with. Required for In and NotIn, forbidden for Exists and DoesNotExist. Example:
    [gold, silver]."""


class LabelSelector(ApiModel):
    """Selects by labels. All labels and all requirements must hold; an empty selector selects everything."""

    go_package: ClassVar[str] = "v1"

    match_labels: Annotated[dict[str, Item], Crd({"maxProperties": 64})] = Field(default_factory=dict)
    """Labels that must have exactly these values. Example: {tier: gold}."""
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Crd({"maxItems": 64})] = ()
    """Requirements on labels. Example: [{key: tier, operator: In, values: [gold, silver]}]."""


class TypedObject(ApiModel):
    """The fields that all API objects have."""

    api_version: Text = ""
    kind: Text = ""
    metadata: ObjectMeta = Field(default_factory=lambda: ObjectMeta())
