"""What is wrong with manifests, told to the person who gives them at once instead of in a log."""

from collections.abc import Callable
from pathlib import Path

from pykubelet.api.documents import MAX_BYTES
from pykubelet.api.rules.pod_kinds import FILE_SOURCE
from pykubelet.base.errors import Invalid
from pykubelet.sources.manifest import BadManifest, Place, read_manifest


def faults_of(manifests: Path, say: Callable[[str], None]) -> list[str]:
    """Says each fault. Raises Invalid when there is nothing to run at all."""
    manifests = manifests.absolute()
    if not manifests.exists():
        raise Invalid(f"{manifests}: there is no such file or folder of manifests")
    files = sorted(f for f in manifests.iterdir() if f.name[0] != ".") if manifests.is_dir() else [manifests]
    faults: list[str] = []
    pods = 0
    for file in (file for file in files if file.is_file()):
        place = Place(origin=str(file), source=FILE_SOURCE, node_name="node")
        try:
            with file.open("rb") as opened:
                pods += len(read_manifest(opened.read(MAX_BYTES + 1), place))
        except BadManifest as error:
            faults += error.faults
        except OSError as error:
            faults.append(f"{file}: cannot be read: {error.strerror}")
    for fault in faults:
        say(fault)
    if not pods:
        raise Invalid(f"{manifests}: there is no pod to run" + (", as told above" if faults else ""))
    return faults
