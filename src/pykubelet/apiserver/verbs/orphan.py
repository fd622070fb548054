"""Setting free what belongs to an object that is about to go, so that it does not go with it."""

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, of_entry
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.status import ApiError


async def orphan(backend: Backend, uid: str) -> None:
    """Before the owner is deleted: afterwards it would be too late."""
    if not uid:
        return
    mark = uid.encode()

    async def freed(old: Object) -> Object:
        owners = [each for each in old["metadata"].get("ownerReferences", ()) if each.get("uid") != uid]
        metadata = {**old["metadata"], "ownerReferences": owners}
        if not owners:
            del metadata["ownerReferences"]
        return {**old, "metadata": metadata}

    listing = await backend.cache.list_newest(ROOT)
    for entry in listing.entries:
        if mark not in entry.value:
            continue
        metadata = of_entry(entry)["metadata"]
        resource = next((each for each in backend.resources if entry.key.startswith(each.prefix)), None)
        if resource is None or not any(each.get("uid") == uid for each in metadata.get("ownerReferences", ())):
            continue
        try:
            await backend.update(resource, metadata.get("namespace", ""), metadata["name"], freed)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
