"""What is wrong with manifests, for a person who has not started anything with them yet."""

from pathlib import Path

from pykubelet.api.documents import MAX_BYTES
from pykubelet.api.rules.pod_kinds import FILE_SOURCE
from pykubelet.base.errors import Invalid
from pykubelet.sources.manifest import BadManifest, Manifest, Place, read_manifest


def check_manifests(manifests: Path) -> tuple[int, tuple[str, ...]]:
    """How many pods a manifest or a folder of them has, and what is wrong with the rest. Raises Invalid when there is
    no such thing."""
    manifests = manifests.absolute()
    if not manifests.exists():
        raise Invalid(f"{manifests}: there is no such file or folder of manifests")
    files = sorted(f for f in manifests.iterdir() if f.name[0] != ".") if manifests.is_dir() else [manifests]
    faults: list[str] = []
    found: list[Manifest] = []
    for file in (file for file in files if file.is_file()):
        place = Place(origin=str(file), source=FILE_SOURCE, node_name="node")
        try:
            with file.open("rb") as opened:
                found.append(read_manifest(opened.read(MAX_BYTES + 1), place))
        except BadManifest as error:
            faults += error.faults
        except OSError as error:
            faults.append(f"{file}: cannot be read: {error.strerror}")
    there = {key for each in found for key in each.objects}
    needs = (need for each in found for needed in each.needs.values() for need in needed.items())
    faults += [fault for key, fault in needs if key not in there]
    return sum(len(each.pods) for each in found), tuple(faults)
