"""The forms in which objects come and go, and which of them a client wants."""

from functools import lru_cache
from typing import Final

import msgspec

from pykubelet.apiserver import status
from pykubelet.apiserver.requests.options import META_GROUP

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_TRANSFORMS: Final = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")

_PEOPLES: Final = ("curl", "Wget", "Mozilla/5.0")


class Accept(msgspec.Struct, frozen=True):
    """The form in which the client wants its answer."""

    media: str = JSON
    transform: str = ""
    """Table or PartialObjectMetadata(List); empty: the object itself."""
    version: str = "v1"


@lru_cache(maxsize=64)
def accepted(header: str) -> Accept:
    """The first form in the client's order that we can send as we have it; protobuf for one that takes nothing else."""
    if not header.strip():
        return Accept()
    found = _first(header, (JSON, YAML)) or _first(header, (PROTOBUF,))
    if found is None or (found.media == PROTOBUF and found.transform == "Table"):
        raise status.not_acceptable((JSON, YAML, PROTOBUF))
    return found


def _first(header: str, offered: tuple[str, ...]) -> Accept | None:
    for clause in header.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        pairs = {key.strip(): value.strip() for key, _, value in (each.partition("=") for each in parameters)}
        plain = {"*/*": JSON, "application/*": JSON, "text/yaml": YAML}.get(media, media)
        if plain not in offered:
            continue
        transform, version = pairs.get("as", ""), pairs.get("v", "v1")
        if not transform:
            return Accept(plain)
        if transform in _TRANSFORMS and pairs.get("g") == META_GROUP and version in ("v1", "v1beta1"):
            return Accept(plain, transform, version)
    return None


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def is_for_people(pretty: str | None, user_agent: str) -> bool:
    """Whether JSON is to be indented: when asked for, and for what people have in their hands, as upstream."""
    if pretty is not None:
        return pretty not in ("0", "false")
    return user_agent.startswith(_PEOPLES)
