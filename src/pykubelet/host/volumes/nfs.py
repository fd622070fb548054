"""Volumes of NFS servers, claimed or named by a pod itself."""

import asyncio
import os
import shutil
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.volume_sources import NFSVolumeSource
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.threads import in_thread

_MOUNTING: Final = 60.0


class Nfs:
    field = "nfs"
    plugin = "kubernetes.io/nfs"

    def __init__(self, dirs: PodDirs) -> None:
        self._dirs = dirs

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        assert volume.nfs is not None
        target = self._dirs.volume(pod.metadata.uid, self.plugin, volume.name)
        await mount_nfs(volume.nfs, (), target)
        return target

    async def tear_down(self, uid: str, name: str) -> None:
        """Also what was claimed."""
        await in_thread(_discard, self._dirs.volume(uid, self.plugin, name))


def _discard(path: str) -> None:
    mount.unmount_below(path)
    os.rmdir(path)


async def mount_nfs(source: NFSVolumeSource, options: tuple[str, ...], target: str) -> None:
    """By the system's own program: it alone knows what servers want."""
    if await in_thread(mount.is_mount_point, target):
        return
    if shutil.which("mount.nfs") is None:
        raise Retry("NFS volumes need mount.nfs, which is not installed on this node: install nfs-common or nfs-utils")
    await in_thread(lambda: os.makedirs(target, 0o750, exist_ok=True))
    wanted = [*options, *(["ro"] if source.read_only else [])]
    command = ["mount", "-t", "nfs", *(["-o", ",".join(wanted)] if wanted else [])]
    command += ["--", f"{source.server}:{source.path}", target]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_MOUNTING):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Retry(f"{source.server}:{source.path} is not mounted: no answer within {_MOUNTING:g} s") from None
    if process.returncode:
        raise Retry(f"{source.server}:{source.path} is not mounted: {told.decode(errors='replace').strip()[-500:]}")
