"""Annotations that are as good as fields of a pod's spec: whoever may write annotations must not change these.

Whether a pod is a mirror pod decides what its node may read: it is said once, when the pod is made.
"""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.rules.well_known import APP_ARMOR_PREFIX, MIRROR_ANNOTATION
from pykubelet.apiserver.objects import Object, at


def annotation_faults(obj: Object, old: Object) -> Iterator[FieldError]:
    new, was = at(obj, "metadata.annotations", {}), at(old, "metadata.annotations", {})
    for key in sorted({*new, *was}):
        what = "mirror pod annotation" if key == MIRROR_ANNOTATION else ""
        what = "AppArmor annotations" if key.startswith(APP_ARMOR_PREFIX) else what
        if not what or new.get(key) == was.get(key):
            continue
        field = f"metadata.annotations[{key}]"
        yield forbidden(field, f"may not remove or update {what}" if key in was else f"may not add {what}")
