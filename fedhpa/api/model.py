"""The base class and the field types of the models of API objects.

The models define the API objects once, for three uses: decoding (pydantic), the CRDs (`make crds`), and the
messages about wrong types and bounds (`fedhpa.api.decode`, `fedhpa.admission.bounds`). A scalar carries two
markers: `ScalarType` names its Go type, `Crd` holds schema keywords. The text below a field is its
description in the CRD.

Decoding is as lenient as Kubernetes: null counts as absent, unknown keys are kept, and a missing field has
its zero value. It is also as strict: a number in quotes is an error. Models do not apply API defaults
(`fedhpa.admission.defaults` does), so a model shows what the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator
from pydantic.alias_generators import to_camel

from fedhpa.api.errors import InvalidObject
from fedhpa.api.quantity import Quantity
from fedhpa.api.times import read_time

# Bounds of lists and strings (docs/reference/federatedhpa.md).
MAX_METRICS: Final = 64
MAX_RULES: Final = 1000
MAX_CLUSTERS: Final = 1000
MAX_NAME: Final = 253
MAX_TEXT: Final = 512
# The longest message of a condition in Kubernetes.
MAX_MESSAGE: Final = 32768


@dataclass(frozen=True, eq=False)
class ScalarType:
    """The type of a scalar, by its name in messages."""

    go: str


@dataclass(frozen=True, eq=False)
class Crd:
    """Schema keywords of a field that only the API server enforces.

    Karmada's fields have Karmada's keywords, bounds, and enumerations. The webhook refuses the same values of
    fields that have an effect, in Karmada's words, and checks the rules between fields.
    """

    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Checked(Crd):
    """Schema keywords that admission enforces too: of lists, and of fields that Karmada lacks.

    A hub may have Karmada's CRD, which lacks these bounds.
    """


# For a status that one process writes. The API server then keeps one owner of it and not one of each field,
# which costs it a quarter less CPU for a write: `managedFields` was larger than the rest of the object.
WRITTEN_WHOLE: Final = Crd({"x-kubernetes-map-type": "atomic"})


def _json_name(attribute: str) -> str:
    return to_camel(attribute).replace("Hpa", "HPA")


class ApiModel(BaseModel):
    """A part of an API object."""

    model_config = ConfigDict(alias_generator=_json_name, populate_by_name=True, extra="allow", frozen=True)

    # Package and name of the Go type in messages, where the name differs from the class.
    go_package: ClassVar[str] = "v1alpha1"
    go_name: ClassVar[str] = ""
    # JSON names that the schema requires. The models require nothing: an absent scalar has its zero value,
    # and admission has its own messages for missing fields.
    required: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if data is None:
            return {}
        if isinstance(data, dict):
            for value in data.values():
                # Faster than `None in`, which compares dictionaries too.
                if value is None:
                    return {key: value for key, value in data.items() if value is not None}
        return data


def go_name(model: type[ApiModel]) -> str:
    """Returns the name of the model's type in Karmada's code, without its package."""
    return model.go_name or model.__name__


def _readable(read: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Returns a check that a value can be read. pydantic expects a ValueError."""

    def check(value: Any) -> Any:
        try:
            read(value)
        except InvalidObject as error:
            raise ValueError(str(error)) from error
        return value

    return check


def _null_to_empty(value: Any) -> Any:
    return "" if value is None else value


Int32 = Annotated[int, Strict(), Field(ge=-(2**31), lt=2**31), ScalarType("int32")]
Int64 = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63), ScalarType("int64")]
Bool = Annotated[bool, Strict(), ScalarType("bool")]
Number = Annotated[float, ScalarType("float64")]
Text = Annotated[str, Strict(), ScalarType("string")]
# A string inside a list or map, where null counts as the empty string.
Item = Annotated[Text, BeforeValidator(_null_to_empty), Crd({"maxLength": MAX_TEXT})]
Uid = Annotated[Text, ScalarType("types.UID")]
Name = Annotated[Text, Crd({"maxLength": MAX_NAME})]
LongText = Annotated[Text, Crd({"maxLength": MAX_TEXT})]
Message = Annotated[Text, Crd({"maxLength": MAX_MESSAGE})]
Time = Annotated[str, Strict(), AfterValidator(_readable(read_time)), ScalarType("v1.Time")]
# Kept as written; callers parse it when they need a number.
RawQuantity = Annotated[
    str | int | float, BeforeValidator(_readable(Quantity.parse)), ScalarType("resource.Quantity")
]
