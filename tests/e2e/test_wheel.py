"""What people do who only install it: `pip install`, `up`, look, `down`; no clone, and none of the tests' tools."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from kit.up_cluster import EMBEDDED
from kit.wheel import PROJECT, built, environment, installed
from pykubelet import __version__
from pykubelet.pod.node.node_object import KUBELET_VERSION

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  terminationGracePeriodSeconds: 1\n"
    "  securityContext: {seccompProfile: {type: RuntimeDefault}}\n"
    "  containers: [{name: c, image: this-machine, command: [sleep, '1000']}]\n"
)


_BESIDE = (".json", ".txt", ".typed", ".html", ".css", ".js", ".svg")


class Installed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder.parent / "data"

    def run(self, name: str, *args: str) -> str:
        done = subprocess.run(
            [self.folder / "bin" / name, *args],
            cwd=self.folder.parent,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("wheel")
    made = Installed(installed(built(folder / "dist"), folder / "venv"))
    yield made
    if made.data.exists():
        made.run("pykubelet", "reset", "--data", str(made.data))


def test_both_programs_are_installed(ours: Installed) -> None:
    assert ours.run("pykubelet", "--version") == f"pykubelet {__version__}\n"
    assert ours.run("kubelet", "--version") == f"Kubernetes {KUBELET_VERSION}\n"


def test_a_pod_comes_up_and_goes_down(ours: Installed) -> None:
    (manifest := ours.data.parent / "pod.yaml").write_text(POD)
    shown = ours.run("pykubelet", "up", str(manifest), "--data", str(ours.data), *EMBEDDED)
    assert "1 of 1 pods are up" in shown
    assert "All is stopped" in ours.run("pykubelet", "down", "--data", str(ours.data))
    assert "cleared away" in ours.run("pykubelet", "reset", "--data", str(ours.data))


def test_every_module_and_every_file_beside_them_is_there(ours: Installed) -> None:
    """Also those that `up` does not load: their dependencies are all among those that are named."""
    told = ours.run(
        "python",
        "-c",
        "import importlib, pkgutil, pykubelet\n"
        "for each in pkgutil.walk_packages(pykubelet.__path__, 'pykubelet.'):\n"
        "    if not each.name.endswith('__main__'): importlib.import_module(each.name)\n"
        "print(pykubelet.__file__)",
    )
    package = Path(told.strip()).parent
    assert package.is_relative_to(ours.folder)
    source = PROJECT / "src" / "pykubelet"
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.suffix in _BESIDE}
    assert wanted
    assert not {path for path in wanted if not (package / path).is_file()}


def test_no_tool_for_working_on_it_is_needed_to_run_it(ours: Installed) -> None:
    made = Distribution.at(next(ours.folder.glob("lib/python*/site-packages/pykubelet-*.dist-info")))
    needed = {line.split(">")[0] for line in made.requires or () if "extra" not in line}
    assert needed == {
        *("aiohttp", "backports-zstd", "click", "cryptography", "google-re2", "grpcio", "msgspec", "prometheus-client"),
        *("protobuf", "pyyaml"),
    }


def test_systemds_units_come_along(ours: Installed) -> None:
    shared = ours.folder / "share/pykubelet/systemd"
    source = PROJECT / "packaging/systemd"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    assert [(shared / path).read_bytes() for path in files] == [(source / path).read_bytes() for path in files]


def test_man_finds_its_pages(ours: Installed) -> None:
    for name, command in (("man1/pykubelet.1", "pykubelet up"), ("man8/kubelet.8", "pod\\-manifest\\-path")):
        assert command in (ours.folder / "share/man" / name).read_text()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_debian_package_has_all_of_it_where_debian_looks_for_it(ours: Installed) -> None:
    """Without what it needs, which is downloaded otherwise."""
    made = subprocess.run(
        [PROJECT / "tools/make_deb.sh", ours.folder.parent, "--no-deps", "--no-index"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    (package,) = ours.folder.parent.glob("*.deb")
    assert str(package) in made.stdout
    root = ours.folder.parent / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", package, root], check=True, timeout=50)
    assert os.readlink(root / "usr/bin/pykubelet") == "/opt/pykubelet/bin/pykubelet"
    for program in ("pykubelet", "kubelet"):
        assert (root / "opt/pykubelet/bin" / program).read_text().startswith("#!/opt/pykubelet/bin/python3\n")
    unit = (root / "usr/lib/systemd/system/pykubelet.service").read_text()
    assert "ExecStart=/opt/pykubelet/bin/pykubelet up " in unit
    assert {path.name for path in root.glob("usr/share/man/man*/*")} == {"pykubelet.1.gz", "kubelet.8.gz"}
    assert "_PYKUBELET_COMPLETE" in (root / "usr/share/bash-completion/completions/pykubelet").read_text()
    assert str(ours.folder.parent) not in (root / "opt/pykubelet/pyvenv.cfg").read_text()
    (packages,) = (root / "opt/pykubelet/lib").glob("python3*/site-packages")
    assert list((packages / "pykubelet/__pycache__").glob("__init__.*.pyc"))
