"""`pykubelet image`, as a person types it."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kit.oci import image_of, layer_of, tar_entry, write_layout
from kit.ports import free_port
from pykubelet.cli.main import main
from pykubelet.up.folder import Folder, Plan

LAYER = layer_of(tar_entry("x", b"x" * 5000))
IMAGE = image_of("docker.io/library/app:1", [LAYER], {"Labels": {"x": "1"}})


def typed(*args: str) -> Result:
    return CliRunner().invoke(main, ["image", *args])


@pytest.fixture
def root(tmp_path: Path) -> list[str]:
    return ["--root-dir", str(tmp_path / "state")]


def docker_archive(path: Path, *names: str) -> None:
    """As `docker save` has always written it: a layer of a second image is a link to that of the first."""
    config = IMAGE.blobs[0].data
    entries = [{"Config": "c.json", "RepoTags": list(names), "Layers": ["1/layer.tar", "2/layer.tar"]}]
    body = json.loads(config)
    body["rootfs"]["diff_ids"] *= 2
    linked = tarfile.TarInfo("2/layer.tar")
    linked.type, linked.linkname = tarfile.SYMTYPE, "../1/layer.tar"
    with tarfile.open(path, "w") as tar:
        for entry, data in (
            tar_entry("1/layer.tar", LAYER.blob.data),
            (linked, b""),
            tar_entry("c.json", json.dumps(body).encode()),
            tar_entry("manifest.json", json.dumps(entries).encode()),
        ):
            tar.addfile(entry, io.BytesIO(data))


def test_an_archive_is_imported_listed_tagged_and_removed(tmp_path: Path, root: list[str]) -> None:
    write_layout([IMAGE], tmp_path / "a.tar")
    assert typed("import", str(tmp_path / "a.tar"), *root).output == "docker.io/library/app:1 is here (8.19 kB).\n"
    assert typed("tag", "app:1", "example.com/app:stable", *root).exit_code == 0
    lines = typed("ls", *root).output.splitlines()
    assert lines[0].split() == ["NAME", "ID", "SIZE", "IN", "USE"]
    assert [line.split()[0] for line in lines[1:]] == ["docker.io/library/app:1", "example.com/app:stable"]
    shown = json.loads(typed("ls", "-o", "json", *root).output)
    assert shown[0]["id"] == IMAGE.blobs[0].digest
    assert typed("rm", "app:1", *root).output == "app:1 is no name of the image any more.\n"
    assert typed("rm", str(shown[0]["id"])[7:15], *root).output.endswith(" is gone.\n")
    assert typed("ls", *root).output.splitlines() == ["NAME  ID  SIZE  IN USE"]


@pytest.mark.parametrize("packed", [lambda data: data, gzip.compress])
def test_what_docker_saves_comes_along_a_pipe(
    tmp_path: Path, root: list[str], packed: Callable[[bytes], bytes]
) -> None:
    docker_archive(tmp_path / "d.tar", "app:dev", "registry.example/app:1")
    command = [sys.executable, "-m", "pykubelet", "image", "import", "-", *root]
    done = subprocess.run(command, input=packed((tmp_path / "d.tar").read_bytes()), capture_output=True, check=True)
    assert done.stdout.decode() == "docker.io/library/app:dev, registry.example/app:1 is here (16.4 kB).\n"


def test_an_image_without_a_name_gets_one(tmp_path: Path, root: list[str]) -> None:
    docker_archive(tmp_path / "d.tar")
    assert "which has no name: give it one with `pykubelet image tag`" in typed(
        "import", str(tmp_path / "d.tar"), *root
    ).output  # fmt: skip
    done = typed("import", str(tmp_path / "d.tar"), "--name", "mine", *root)
    assert done.output == "docker.io/library/mine:latest is here (16.4 kB).\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["rm", "nothing:1"], "there is no image nothing:1 here; see `pykubelet image ls`"),
        (["tag", "nothing", "x"], "there is no image nothing here; see `pykubelet image ls`"),
        (["import", "{}/broken"], "{}/broken: it is not an archive that can be read: "),
        (["import", "{}/other.tar"], "{}/other.tar: there is neither a manifest.json nor an index.json in it"),
        (["tag", "nothing", "UPPER:1"], "image name 'UPPER:1' must be lower case"),
        (["import", "{}/missing.tar"], "{}/missing.tar: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(tmp_path: Path, root: list[str], args: list[str], why: str) -> None:
    (tmp_path / "broken").write_bytes(b"no archive")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("x"))
    done = typed(*(each.format(tmp_path) for each in args), *root)
    assert done.exit_code == 2
    assert done.output.startswith("pykubelet: " + why.format(tmp_path))
    assert done.output.count("\n") == 1


def test_a_name_that_is_none_is_not_pulled(root: list[str]) -> None:
    done = typed("pull", "UPPER:1", *root)
    assert (done.exit_code, done.output) == (
        2,
        "Pulling UPPER:1 ...\npykubelet: image name 'UPPER:1' must be lower case\n",
    )


def test_a_registry_out_of_reach_may_be_there_later(root: list[str]) -> None:
    done = typed("pull", f"127.0.0.1:{free_port()}/x:1", "-q", *root)
    assert (done.exit_code, "cannot be reached" in done.output) == (1, True)


def test_the_images_of_another_runtime_are_not_ours(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data")]
    assert "there is no cluster in" in typed("ls", *data).output
    folder = Folder(tmp_path / "data")
    folder.path.mkdir()
    plan = Plan(node="n", address="10.0.0.1", api_port=1, kubelet_port=2, runtime="unix:///run/containerd.sock")
    folder.save(plan)
    assert "use that runtime's own tools for its images" in typed("ls", *data).output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_only_the_agents_user_touches_its_images(tmp_path: Path, root: list[str]) -> None:
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 1234, 1234)
    assert "belongs to user 1234: run this as that user" in typed("ls", *root).output
    assert not list((tmp_path / "state").iterdir())
