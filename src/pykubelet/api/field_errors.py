"""What is wrong with an object, field by field."""

from typing import Any, Literal

from msgspec import Struct

FieldErrorType = Literal[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueNotFound",
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
]


class FieldError(Struct, frozen=True, gc=False):
    """One fault: where (`spec.containers[0].image`), of which kind (upstream's names), why, and what was found."""

    type: FieldErrorType
    field: str
    detail: str
    value: Any = None

    def __str__(self) -> str:
        found = "" if self.value is None or self.value == "" else f", got {_shown(self.value)}"
        return f"{self.field}: {self.detail}{found}"


class InvalidObject(ValueError):
    """An object that cannot be accepted, with everything that is wrong with it."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, detail, value)


def required(field: str, detail: str = "is required") -> FieldError:
    return FieldError("FieldValueRequired", field, detail)


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, "is used more than once", value)


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, detail)


def not_found(field: str, value: object, detail: str = "does not exist in this pod") -> FieldError:
    return FieldError("FieldValueNotFound", field, detail, value)


def not_supported(field: str, value: object, supported: tuple[str, ...]) -> FieldError:
    return FieldError("FieldValueNotSupported", field, f"must be one of {', '.join(supported)}", value)


def too_long(field: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"may not be more than {limit} bytes")


def too_many(field: str, limit: int, count: int) -> FieldError:
    return FieldError("FieldValueTooMany", field, f"must have at most {limit} items", count)


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
