#!/bin/sh
# A Debian package for machines without pip or a network: an environment in /opt/pykubelet with all that it needs, the unit
# of `up`, man pages and completion. It is for the Debian and the kind of processor that it is made on.
# Usage: make_deb.sh FOLDER [ARGUMENTS OF pip install]
set -eu
umask 022
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=$1
shift
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
root=$made/root
ours=$root/opt/pykubelet

"$python" -m hatchling build -t wheel -d "$made" >/dev/null
/usr/bin/python3 -m venv --without-pip --symlinks "$ours"
rm -f "$ours"/bin/[aA]ctivate*
"$python" -m pip --quiet --disable-pip-version-check --python "$ours/bin/python3" install --no-compile --no-warn-script-location \
	--constraint constraints.txt "$@" "$made"/*.whl

# It was made somewhere else than where it will be.
sed -i "1s|^#!.*|#!/opt/pykubelet/bin/python3|" "$ours/bin/pykubelet" "$ours/bin/kubelet"
sed -i "s|$root||" "$ours/pyvenv.cfg"
/usr/bin/python3 -m compileall -q -s "$root" -p / "$ours/lib"
find "$ours/bin" -type f ! -name pykubelet ! -name kubelet -delete

mkdir -p "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/share/doc/pykubelet" "$root/DEBIAN"
ln -s /opt/pykubelet/bin/pykubelet "$root/usr/bin/pykubelet"
mv "$ours/share/man" "$root/usr/share/man"
gzip --best --no-name "$root"/usr/share/man/*/*
cp packaging/systemd/pykubelet.service "$root/usr/lib/systemd/system/"
cp LICENSE "$root/usr/share/doc/pykubelet/copyright"
completion() {
	mkdir -p "$root/usr/share/$2"
	"$python" -m pykubelet completion "$1" >"$root/usr/share/$2/$3"
}
completion bash bash-completion/completions pykubelet
completion zsh zsh/vendor-completions _pykubelet
completion fish fish/vendor_completions.d pykubelet.fish

version=$("$python" -c 'import pykubelet; print(pykubelet.__version__)')
for_python=$(/usr/bin/python3 -c 'import sys; print("python3 (>= %d.%d), python3 (<< %d.%d)" % (*sys.version_info[:2], 3, sys.version_info[1] + 1))')
cat >"$root/DEBIAN/control" <<EOF
Package: pykubelet
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The pykubelet authors <pykubelet@example.org>
Installed-Size: $(du --summarize --block-size=1K --exclude=DEBIAN "$root" | cut -f1)
Depends: $for_python
Recommends: kubernetes-client, nftables
Suggests: containerd
Section: admin
Priority: optional
Description: a kubelet in Python, with an API server for one machine
 A node agent that runs pods from manifests or from an API server, in containers
 or as processes of this machine, and an API server that kubectl talks to.
EOF
mkdir -p "$folder"
dpkg-deb --root-owner-group --build "$root" "$folder" >/dev/null
echo "$folder/pykubelet_${version}_$(dpkg --print-architecture).deb"
