"""Get and list: what is there, in the form that the client asked for, decoded only when that form needs it."""

from typing import Any

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import ListOptions, continue_token, list_options, parse_token, revision
from pykubelet.apiserver.store.port import Entry, Expired, Future, Listing
from pykubelet.apiserver.tables.tables import partial_metadata, table, wanted_objects
from pykubelet.apiserver.verbs.selection import Selection, selection
from pykubelet.base.errors import Retry

_CHUNK = 500
_PLAIN = 64
_LOOKED_INTO = 8
"""How many bytes of a list cost as much as one of an object that is written."""


async def get(backend: Backend, call: Call) -> Answer:
    info, resource = call.info, call.resource
    if wanted := revision(call.query.get("resourceVersion", "")):
        try:
            await backend.cache.reach(wanted)
        except Retry:
            raise status.too_large_version(wanted, backend.cache.revision) from None
    if call.query.get("resourceVersion") == "0":
        entry = await backend.cache.get(resource.key(info.namespace, info.name))
        entry = entry or await backend.read(resource, info.namespace, info.name)
        await backend.ready(resource, (entry,))
    else:
        entry = await backend.read(resource, info.namespace, info.name)
    if call.accept.transform:
        return Answer(200, backend.object_of(resource, entry.value, entry.revision))
    return Answer(200, data=backend.wire(resource, entry.value, entry.revision))


async def list_(backend: Backend, call: Call) -> Answer:
    options = list_options(call.query, call.info.verb)
    chosen = selection(backend.strategy(call.resource), options)
    weight = 0 if backend.strategy(call.resource).waits else list_weight(backend, call, options, chosen)
    return await backend.aside(call.user.name, weight, lambda there: _listed(there, call, options, chosen))


def list_weight(backend: Backend, call: Call, options: ListOptions, chosen: Selection) -> int:
    """A selector looks at all of them. What goes out as it is costs little."""
    most = options.limit if chosen.is_everything else 0
    weight = backend.cache.weight(call.resource.folder(call.info.namespace), most)
    return weight // (_PLAIN if chosen.is_everything and not call.accept.transform else _LOOKED_INTO)


async def _listed(backend: Backend, call: Call, options: ListOptions, chosen: Selection) -> Answer:
    entries, metadata = await page(backend, call, options, chosen)
    resource = call.resource
    await backend.ready(resource, entries)
    if not call.accept.transform:
        items = b",".join([backend.wire_item(resource, entry.value, entry.revision) for entry in entries])
        head = (encode(resource.list_kind), encode(resource.api_version), encode(metadata))
        return Answer(200, data=b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[%s]}\n' % (*head, items))
    objects, version = [backend.object_of(resource, each.value, each.revision) for each in entries], call.accept.version
    if call.accept.transform == "Table":
        return Answer(200, table(resource, objects, metadata, version, wanted_objects(call.query), backend.now()))
    partial = [partial_metadata(obj, version) for obj in objects]
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}"}
    return Answer(200, {**kind, "metadata": metadata, "items": partial})


async def page(
    backend: Backend, call: Call, options: ListOptions, chosen: Selection
) -> tuple[list[Entry], dict[str, Any]]:
    """The entries that the client gets, and the metadata of the list."""
    folder = call.resource.folder(call.info.namespace)
    start, exactly = "", 0
    if options.continued:
        if options.version not in ("", "0"):
            raise status.bad_request("specifying resource version is not allowed when using continue")
        token = parse_token(options.continued)
        start, exactly = folder + token.start, token.rv
    wanted = revision(options.version)
    if wanted and (options.match == "Exact" or (options.limit and not options.match)):
        exactly = wanted
    try:
        listing = await _listing(backend, folder, options, start, exactly, wanted, chosen)
        entries = [entry for entry in listing.entries if chosen.holds(entry)]
        while options.limit and listing.more and len(entries) < options.limit:
            listing = await backend.cache.list(
                folder, limit=_CHUNK, start_key=listing.next_key, revision=exactly or listing.revision
            )
            entries += [entry for entry in listing.entries if chosen.holds(entry)]
    except Expired:
        raise status.gone_410() from None
    except Future:
        raise status.too_large_version(exactly or wanted, backend.cache.revision) from None
    metadata: dict[str, Any] = {"resourceVersion": str(listing.revision)}
    is_cut = bool(options.limit) and len(entries) > options.limit
    if is_cut:
        entries = entries[: options.limit]
    if entries and options.limit and (is_cut or listing.more):
        metadata["continue"] = continue_token(listing.revision, f"{entries[-1].key}\0"[len(folder) :])
        if chosen.is_everything:
            metadata["remainingItemCount"] = listing.remaining
    return entries, metadata


async def _listing(
    backend: Backend, folder: str, options: ListOptions, start: str, exactly: int, wanted: int, chosen: Selection
) -> Listing:
    limit = options.limit if chosen.is_everything else (_CHUNK if options.limit else 0)
    if exactly:
        return await backend.cache.list(folder, limit=limit, start_key=start, revision=exactly)
    if options.version == "0":
        return await backend.cache.list(folder, limit=limit, start_key=start)
    if wanted:
        try:
            return await backend.cache.list(folder, limit=limit, start_key=start, at_least=wanted)
        except Retry:
            raise status.too_large_version(wanted, backend.cache.revision) from None
    return await backend.cache.list_newest(folder, limit=limit, start_key=start)
