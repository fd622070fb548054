#!/bin/sh
# Install what the tests on a real containerd, Prometheus and browser need. Quick when all is there; says plainly what will not be tested.

PACKAGES="busybox-static chromium containerd containernetworking-plugins dbus docker-registry groff-base iproute2 iptables nftables prometheus runc systemd"

missing=""
for package in $PACKAGES; do
	dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

skipped() {
	echo "The tests on a real containerd (tests/integration, tests/contract/test_cri_runtime.py) or browser (test_page.py) will not run: $1." >&2
	exit 0
}

command -v apt-get >/dev/null || skipped "this machine has no apt-get to install$missing"
[ "$(id -u)" = 0 ] || skipped "only root can install$missing"

# The system's own containerd is not needed: tests start a private one.
started=""
[ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d && started=no; }
log=$(mktemp)
{ apt-get update --quiet=2 &&
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $missing; } >"$log" 2>&1
result=$?
[ "$started" = no ] && rm -f /usr/sbin/policy-rc.d
if [ $result != 0 ]; then
	tail -n 5 "$log" >&2
	rm -f "$log"
	skipped "apt-get could not install$missing"
fi
rm -f "$log"
echo "installed for tests:$missing"
