"""Containers whose root is an image's: what it says of itself is heeded, and nothing of this machine is in sight."""

import os
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config
from kit.oci import PackedLayer, busybox_layer, folder, image_of, layer_of, make_image, tar_entry
from pykubelet.api.security import PodSecurityContext, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Mount
from unit.runtime.process.machine import UID, Machine, sandbox_of

NAME = "example.com/tools:1"


def base() -> PackedLayer:
    layer = busybox_layer()
    return PackedLayer(layer, layer.digest)


async def test_what_an_image_says_of_itself_is_how_it_is_run(isolated: Machine) -> None:
    said = {
        "Entrypoint": ["sh", "-c"],
        "Cmd": ["pwd; echo $A $PATH; ls /; cat /etc/motd"],
        "Env": ["A=7", "PATH=/bin"],
        "WorkingDir": "/srv/app",
        "StopSignal": "SIGINT",
    }
    more = layer_of(folder("etc"), tar_entry("etc/motd", b"welcome"), packing="gzip")
    await isolated.has(image_of(NAME, [base(), more], said))
    sandbox_id = (await isolated.runtime.run_sandbox(sandbox_config())).id
    config = container_config(isolated, image=NAME, command=())
    container_id = await isolated.runtime.create_container(sandbox_id, config)
    await isolated.runtime.start_container(container_id)
    container = await ended(isolated.runtime, UID, container_id)
    folders, shown, *rest = isolated.output(container_id).splitlines()
    assert (folders, shown) == ("/srv/app", "7 /bin")
    assert rest == ["bin", "dev", "etc", "proc", "root", "srv", "sys", "tmp", "welcome"]
    assert container.image_id.startswith("example.com/tools@sha256:")


async def test_layers_take_away_and_replace_what_is_below_them(isolated: Machine) -> None:
    lower = layer_of(
        folder("d"),
        *(tar_entry(f"d/{name}", b"low") for name in ("gone", "kept", "new")),
        folder("emptied"),
        tar_entry("emptied/x", b"low"),
        folder("again"),
        tar_entry("again/x", b"low"),
        folder("was-folder"),
        tar_entry("was-folder/x", b"low"),
        tar_entry("was-file", b"low"),
        folder("private", 0o700, uid=1234, gid=2345),
    )
    upper = layer_of(
        tar_entry("d/.wh.gone"),
        tar_entry("d/new", b"high"),
        tar_entry("emptied/.wh..wh..opq"),
        tar_entry("emptied/y", b"high"),
        tar_entry(".wh.again"),
        folder("again"),
        tar_entry("again/y", b"high"),
        tar_entry("was-folder", b"high"),
        folder("was-file"),
        tar_entry("private/z", b"high"),
        packing="zstd",
    )
    await isolated.has(image_of(NAME, [base(), lower, upper]))
    script = (
        "cd /; find d emptied again was-folder was-file private | sort | tr '\\n' ' '; cat d/new was-folder; "
        "stat -c ' %a %u' private; touch d/kept emptied/z && rm -r again && ls /again"
    )
    _, output = await isolated.run(script, image=NAME)
    tree, line, last = output.split("\n")[0], "", output.splitlines()[-1]
    assert tree.startswith(
        "again again/y d d/kept d/new emptied emptied/y private private/z was-file was-folder highhigh 700 "
    ), (output, line)
    assert tree.endswith("1234" if os.geteuid() == 0 else "0")
    assert "No such file" in last
    _, untouched = await isolated.run("ls /again; echo /emptied/*", image=NAME, attempt=1)
    assert untouched == "y\n/emptied/y\n"


@pytest.mark.parametrize("overlay", [True, False])
async def test_an_image_is_the_same_with_and_without_overlays(isolated: Machine, overlay: bool) -> None:
    upper = layer_of(folder("etc", 0o555), tar_entry("etc/.wh.group"), tar_entry("etc/x", b"secret", mode=0))
    top = layer_of(folder("etc", 0o755), tar_entry("etc/y", b"plain"))
    await isolated.has(image_of(NAME, [base(), upper, top]))
    await isolated.runtime.status()
    assembly = isolated.runtime._assembly
    assert assembly is not None
    assembly._abilities = changed(assembly._abilities, overlay=overlay)
    script = "ls /etc | tr '\\n' ' '; cat /etc/x /etc/y; echo > /etc/new && rm /bin/ls && echo ' well'"
    for attempt in range(2):
        _, output = await isolated.run(script, image=NAME, attempt=attempt)
        assert output == "hostname passwd resolv.conf x y secretplain well\n"


async def test_an_images_user_is_looked_up_in_the_image(isolated: Machine) -> None:
    await isolated.has(make_image(NAME, busybox_layer(), {"User": "app"}))
    _, output = await isolated.run("id -u; id -g; echo $HOME", image=NAME)
    assert output == "1234\n2345\n/\n"
    as_root = sandbox_of(SecurityContext(run_as_non_root=True, run_as_user=0))
    with pytest.raises(Invalid, match="would run as root"):
        await isolated.start("true", image=NAME, sandbox=as_root)
    sandbox = sandbox_of(SecurityContext(run_as_non_root=True), PodSecurityContext())
    _, output = await isolated.run("id -u", image=NAME, sandbox=sandbox, attempt=1)
    assert output == "1234\n"


async def test_an_images_root_can_be_for_reading_only(isolated: Machine, tmp_path: Path) -> None:
    await isolated.has(make_image(NAME, busybox_layer()))
    (tmp_path / "volume").mkdir()
    mounts = (Mount(host_path=str(tmp_path / "volume"), container_path="/data/deep"),)
    script = "touch /x /tmp/x 2>/dev/null && echo bad; touch /data/deep/x && echo well; cat /etc/hostname >/dev/null"
    sandbox = sandbox_of(SecurityContext(read_only_root_filesystem=True))
    _, output = await isolated.run(script, image=NAME, sandbox=sandbox, mounts=mounts)
    assert output == "well\n"
    assert (tmp_path / "volume" / "x").exists()


async def test_commands_are_executed_with_the_images_programs(isolated: Machine) -> None:
    await isolated.has(make_image(NAME, busybox_layer()))
    container_id = await isolated.start("exec sleep 1000", image=NAME)
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", "echo $0; ls /usr"), 10)
    assert (result.stdout, result.exit_code) == (b"sh\n", 1)
    packed = await isolated.runtime.exec_sync(container_id, ("tar", "-c", "-f", "-", "/etc/passwd"), 10)
    assert b"root:x:0:0" in packed.stdout  # as `kubectl cp` does it


async def test_a_container_keeps_its_image_when_the_name_moves_on(isolated: Machine) -> None:
    layer = busybox_layer()
    await isolated.has(make_image(NAME, layer, {"Env": ["PATH=/bin", "V=1"]}))
    container_id = await isolated.start("exec sleep 1000", image=NAME)
    await isolated.has(make_image(NAME, layer, {"Env": ["PATH=/bin", "V=2"]}))
    runtime = await isolated.restarted()
    result = await runtime.exec_sync(container_id, ("sh", "-c", "echo $V"), 10)
    assert result.stdout == b"1\n"
    _, output = await isolated.run("echo $V", image=NAME, attempt=1)
    assert output == "2\n"


async def test_an_image_stays_while_a_container_is_made_from_it(isolated: Machine) -> None:
    await isolated.has(make_image(NAME, busybox_layer()))
    container_id = await isolated.start("exec sleep 1000", image=NAME)
    image = await isolated.runtime.image(NAME)
    assert image is not None
    with pytest.raises(Invalid, match="is in use"):
        await isolated.runtime.remove_image(image.id)
    await isolated.runtime.remove_container(container_id)
    await isolated.runtime.remove_image(image.id)
    assert not any((isolated.root / "images" / "layers").iterdir())
    assert await isolated.runtime.image(NAME) == changed(image, id="machine", names=(NAME,), built_in=True, size=0)
