"""JSON merge patches (RFC 7396): an object that looks like the change, with null for what is to go."""

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.schema.schema import Json, copied, is_too_deep


def apply_merge_patch(original: Json, patch: Json) -> Json:
    """-> a new object; neither argument is changed"""
    if not isinstance(patch, dict):
        raise PatchRefused("Invalid JSON Patch")
    if is_too_deep(patch):
        raise PatchRefused("the patch is nested too deeply")
    return _merged(copied(original), patch)


def _merged(original: Json, patch: Json) -> Json:
    """The original is ours to change."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = original if isinstance(original, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
