"""Kubeconfig files for those whom we gave a certificate, and how one is joined with what a person already has."""

import base64
from pathlib import Path
from typing import Any, Final

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.web.key_pairs import write_private

_CLUSTER: Final = "pykubelet"
_SECTIONS: Final = ("clusters", "users", "contexts")


def kubeconfig(server: str, authority: bytes, certificate: bytes, key: bytes, *, user: str = "admin") -> dict[str, Any]:
    """For one server and one user; everything is in it, so that it can be carried to another machine."""
    identity = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    return _config(server, authority, identity, _CLUSTER if user == "admin" else f"{_CLUSTER}-{user}")


def token_kubeconfig(server: str, authority: bytes, token: str) -> dict[str, Any]:
    """For who has nothing but a token: a node that is about to join, for example."""
    return _config(server, authority, {"token": token}, f"{_CLUSTER}-token")


def _config(server: str, authority: bytes, identity: dict[str, str], name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": _CLUSTER, "cluster": {"server": server, "certificate-authority-data": _base64(authority)}},
        ],
        "users": [{"name": name, "user": identity}],
        "contexts": [{"name": name, "context": {"cluster": _CLUSTER, "user": name}}],
        "current-context": name,
    }


def merged_kubeconfig(existing: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What the person has, with ours added or renewed. The current context changes only if there was none."""
    merged = {"apiVersion": "v1", "kind": "Config", **existing}
    for section in _SECTIONS:
        there = existing.get(section) or []
        if not isinstance(there, list) or not all(isinstance(each, dict) for each in there):
            raise Invalid(f"{section} of the kubeconfig is not a list of objects: correct it, or write ours elsewhere")
        names = {each["name"] for each in ours[section]}
        merged[section] = [each for each in there if each.get("name") not in names] + ours[section]
    merged["current-context"] = existing.get("current-context") or ours["current-context"]
    return merged


def write_kubeconfig(path: Path, config: dict[str, Any]) -> None:
    """As JSON, which is YAML as well; for the owner's eyes only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Invalid(f"{path.parent} cannot be made: {error.strerror}") from None
    write_private(path, msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
