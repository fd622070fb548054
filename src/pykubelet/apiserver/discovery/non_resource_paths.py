"""Paths that are about the server, not about objects: its version, its health, what it serves and how that looks."""

import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from pykubelet.apiserver import status
from pykubelet.apiserver.discovery import discovery
from pykubelet.apiserver.discovery.openapi_documents import OpenApiDocuments, is_known, tag_of
from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.settings import ApiSettings

Check = Callable[[], Awaitable[bool]]
Measured = Callable[[], Awaitable[bytes]]
"""The server's own numbers, in Prometheus' text format."""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_HEALTH = ("/healthz", "/livez", "/readyz")


class NonResourcePaths:
    def __init__(
        self, settings: ApiSettings, resources: Resources, checks: Mapping[str, Check], metrics: Measured
    ) -> None:
        self._settings = settings
        self._resources = resources
        self._openapi = OpenApiDocuments(resources, settings.version)
        self._checks = checks
        self._metrics = metrics
        self.documents: dict[str, tuple[str, bytes]] = {}
        """Further ones that others have made: by path, the type of their content and the content itself."""
        self.others: Callable[[], discovery.Others] = tuple
        """What other API servers answer for."""

    async def answer(self, request: web.Request, path: str) -> web.Response:
        """Raises 404 for a path that means nothing, and 405 for a method other than GET."""
        parts = path.strip("/").split("/")
        health = "/" + parts[0]
        if health in _HEALTH and len(parts) <= 2:
            return await self._health(request, health, parts[1] if len(parts) == 2 else "")
        made = self.documents.get("/" + "/".join(parts))
        found = _lasting(*made) if made else await self._document(request, parts)
        if found is None:
            raise status.unknown_path()
        if request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return found

    async def _document(self, request: web.Request, parts: list[str]) -> web.Response | None:
        accept = request.headers.get("Accept", "")
        match parts:
            case ["metrics"]:
                return web.Response(body=await self._metrics(), headers={"Content-Type": _METRICS})
            case ["version"]:
                return _json(version_info(self._settings.version))
            case ["api" | "apis" as root]:
                if version := discovery.aggregated_version(accept):
                    others = self.others() if root == "apis" else ()
                    body = discovery.aggregated(self._resources, is_core=root == "api", version=version, others=others)
                    return _tagged(request, encode(body), discovery.aggregated_content_type(version))
                if root == "apis":
                    return _json(discovery.group_list(self._resources, self.others()))
                address = f"{self._settings.advertise_address}:{self._settings.advertise_port}"
                return _json(discovery.api_versions(address))
            case ["api", version_name]:
                return _json(discovery.resource_list(self._resources, "", version_name))
            case ["apis", group]:
                return _json(discovery.group(self._resources, group, self.others()))
            case ["apis", group, version_name]:
                return _json(discovery.resource_list(self._resources, group, version_name))
            case ["openapi", version_name, *rest]:
                return await self._openapi.answer(request, version_name, "/".join(rest))
            case [""]:
                return _json(
                    {"paths": ["/api", "/apis", *_HEALTH, "/metrics", "/openapi/v2", "/openapi/v3", "/version"]}
                )
            case _:
                return None

    async def _health(self, request: web.Request, path: str, one: str) -> web.Response:
        if one and one not in self._checks:
            raise status.unknown_path()
        excluded = request.query.getall("exclude", [])
        wanted = {name: check for name, check in self._checks.items() if name not in excluded and one in ("", name)}
        results = {name: await check() for name, check in wanted.items()}
        is_well = all(results.values())
        name = one or path.strip("/")
        if is_well and "verbose" not in request.query:
            return _text("ok")
        lines = [f"[+]{each} ok" if well else f"[-]{each} failed: reason withheld" for each, well in results.items()]
        lines.append(f"{name} check {'passed' if is_well else 'failed'}")
        return _text("\n".join(lines) + "\n", 200 if is_well else 500)


def version_info(version: str) -> dict[str, str]:
    major, minor, *_ = version.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{_MACHINES.get(platform.machine(), platform.machine())}",
    }


def _lasting(content_type: str, body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": "public, max-age=3600"})


def _json(body: Mapping[str, Any] | None, content_type: str = "application/json") -> web.Response:
    if body is None:
        raise status.unknown_path()
    return web.Response(body=encode(body) + b"\n", headers={"Content-Type": content_type})


def _tagged(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """For a client that asks often, and mostly for what it has."""
    tag = tag_of(body)
    headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public", "Content-Type": content_type}
    if is_known(request, tag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers)


def _text(text: str, code: int = 200) -> web.Response:
    return web.Response(text=text, status=code, headers={"X-Content-Type-Options": "nosniff"})
