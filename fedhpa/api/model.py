"""What every model of a written object shares.

The models are the one place where the shape of our objects is said. Three things are read off them: how
stored objects decode (pydantic), the CRDs (`fedhpa.admission.crd`), and what admission says about a wrong
type or a bound of our own fields (`fedhpa.api.decode`, `fedhpa.admission.validation.bounds`).
Each scalar carries two markers: `Kind`
names its type on the wire and in messages, `Crd` holds schema keywords.

Decoding is lenient where Kubernetes is: null is absent, unknown keys are kept, a missing field has its zero
value; and strict where Kubernetes is: no number is read out of a string. Defaults of the API are not applied
here (`fedhpa.admission.defaults` does), so that an object says what was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator
from pydantic.alias_generators import to_camel

from fedhpa.api.errors import InvalidObject
from fedhpa.api.quantity import Quantity
from fedhpa.api.times import read_time

# List sizes and string lengths of docs/reference/federatedhpa.md: bounded, so that CEL rules fit the API
# server's cost budget.
MAX_METRICS: Final = 64
MAX_RULES: Final = 1000
MAX_CLUSTERS: Final = 1000
MAX_NAME: Final = 253
MAX_TEXT: Final = 512
# Metadata-sized texts that people read: as long as a condition's message may be in Kubernetes.
MAX_MESSAGE: Final = 32768


@dataclass(frozen=True, eq=False)
class Kind:
    """The type of a scalar: `go` is what messages call it, `schema` its OpenAPI type."""

    go: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Crd:
    """Schema keywords of a field. Admission does not look at them: the API server does.

    For Karmada's own fields these are Karmada's, the sizes of the contract, and enumerations, whose message
    is Karmada's too. The rest is CEL rules (`fedhpa.admission.cel`), because a schema speaks first.
    """

    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Checked(Crd):
    """Schema keywords that admission enforces too: fields of ours, and the sizes of lists.

    The CRD on a hub may be somebody else's, and then admission is the only one who knows them.
    """


class ApiModel(BaseModel):
    """A part of an API object."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)

    # What messages call the type where Go's name is another than the class's.
    go_package: ClassVar[str] = "v1alpha1"
    go_name: ClassVar[str] = ""
    # Wire names that the schema requires. The models themselves require nothing: absent scalars count as
    # their zero value, and admission has its own messages for them.
    required: ClassVar[tuple[str, ...]] = ()
    preserve_unknown: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        if data is None:
            return {}
        if isinstance(data, dict):
            for value in data.values():
                # Not `None in`, which compares each value with it, dictionaries too.
                if value is None:
                    return {key: value for key, value in data.items() if value is not None}
        return data


def go_name(model: type[ApiModel]) -> str:
    """The name of the model's type in Karmada's code, without its package."""
    return model.go_name or model.__name__


def _quantity(value: Any) -> Any:
    Quantity.parse(value)
    return value


def _time(value: str) -> str:
    read_time(value)
    return value


def _wrapped(check: Any) -> Any:
    """Turns our InvalidObject into the ValueError that pydantic collects."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except InvalidObject as error:
            raise ValueError(str(error)) from error

    return run


def _null_to_empty(value: Any) -> Any:
    return "" if value is None else value


QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
QUANTITY_SCHEMA: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

Int32 = Annotated[
    int,
    Strict(),
    Field(ge=_INT32_MIN, le=_INT32_MAX),
    Kind("int32", {"type": "integer", "format": "int32"}),
]
Int64 = Annotated[
    int,
    Strict(),
    Field(ge=_INT64_MIN, le=_INT64_MAX),
    Kind("int64", {"type": "integer", "format": "int64"}),
]
Bool = Annotated[bool, Strict(), Kind("bool", {"type": "boolean"})]
Number = Annotated[float, Kind("float64", {"type": "number"})]
Text = Annotated[str, Strict(), Kind("string", {"type": "string"})]
# A text inside a list or map: null there is the empty text.
Item = Annotated[
    str,
    Strict(),
    BeforeValidator(_null_to_empty),
    Kind("string", {"type": "string"}),
    Crd({"maxLength": MAX_TEXT}),
]
Uid = Annotated[Text, Kind("types.UID", {"type": "string"})]
Name = Annotated[Text, Crd({"maxLength": MAX_NAME})]
LongText = Annotated[Text, Crd({"maxLength": MAX_TEXT})]
Message = Annotated[Text, Crd({"maxLength": MAX_MESSAGE})]
Time = Annotated[
    str,
    Strict(),
    AfterValidator(_wrapped(_time)),
    Kind("v1.Time", {"type": "string", "format": "date-time"}),
]
# Kept as written; who needs a number parses it.
RawQuantity = Annotated[
    str | int | float, BeforeValidator(_wrapped(_quantity)), Kind("resource.Quantity", QUANTITY_SCHEMA)
]
Labels = Annotated[dict[str, Item], Crd({"maxProperties": 64})]
