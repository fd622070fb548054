"""What is asked of a conversion webhook, and what is taken of its answer: the same objects in another version."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.apiserver.schema.schema import copied

Object = dict[str, Any]

GROUP: Final = "apiextensions.k8s.io"
_REVIEWS: Final = ("v1", "v1beta1")
_SAME: Final = ("name", "namespace", "uid")
_TAKEN: Final = ("labels", "annotations")
"""Of the metadata: nothing else is the webhook's to change."""


class ConversionFailed(Exception):
    """The message says why, for whoever asked for the objects."""


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    result: _Result = _Result()
    converted_objects: list[Any] | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


def review_of(versions: Sequence[str], objects: Sequence[Object], wanted: str, uid: str) -> Object:
    """The body of the question. `versions` are those of the review that the webhook knows, best first."""
    version = next((each for each in versions if each in _REVIEWS), "")
    if not version:
        raise ConversionFailed("no supported conversion review versions")
    request = {"uid": uid, "desiredAPIVersion": wanted, "objects": list(objects)}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ConversionReview", "request": request}


def converted(answer: bytes, review: Object, objects: Sequence[Object]) -> list[Object]:
    """The objects in the version that was asked for. Raises ConversionFailed for what is not just that."""
    try:
        found = msgspec.json.decode(answer, type=_Review)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConversionFailed(f"its answer cannot be read: {error}") from None
    response, request = found.response, review["request"]
    if (found.api_version, found.kind) != (review["apiVersion"], review["kind"]):
        raise ConversionFailed(
            f"expected webhook response of {review['apiVersion']}, Kind=ConversionReview, "
            f"got {found.api_version}, Kind={found.kind}"
        )
    if response is None:
        raise ConversionFailed("no response provided")
    if response.uid != request["uid"]:
        raise ConversionFailed(f'expected response.uid="{request["uid"]}", got "{response.uid[:100]}"')
    if response.result.status != "Success":
        said = response.result.message[:1000]
        raise ConversionFailed(said or f"response.result.status was '{response.result.status[:100]}', not 'Success'")
    given = response.converted_objects or []
    if len(given) != len(objects):
        raise ConversionFailed(f"returned {len(given)} objects, expected {len(objects)}")
    wanted = request["desiredAPIVersion"]
    return [_checked(new, old, wanted, index) for index, (new, old) in enumerate(zip(given, objects, strict=True))]


def _checked(new: Any, old: Object, wanted: str, index: int) -> Object:
    where = f"returned invalid converted object at index {index}"
    metadata = new.get("metadata") if isinstance(new, dict) else None
    if not isinstance(metadata, dict):
        raise ConversionFailed(f"{where}: missing metadata in converted object")
    if new.get("apiVersion") != wanted:
        raise ConversionFailed(f"{where}: invalid groupVersion (expected {wanted}, received {new.get('apiVersion')})")
    if new.get("kind") != old["kind"]:
        raise ConversionFailed(f"{where}: invalid kind (expected {old['kind']}, received {new.get('kind')})")
    for name in _SAME:
        if (metadata.get(name) or "") != (old["metadata"].get(name) or ""):
            raise ConversionFailed(f"{where}: must have the same {name}")
    kept = {name: value for name, value in old["metadata"].items() if name not in _TAKEN}
    return {
        **new,
        "metadata": copied(kept) | {name: _texts(metadata, name, where) for name in _TAKEN if metadata.get(name)},
    }


def _texts(metadata: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
    found = metadata[name]
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ConversionFailed(f"{where}: its {name} are not texts")
    return found
