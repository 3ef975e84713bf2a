#!/usr/bin/env bash
# Proves that a bare Debian 12 is enough: makes one in DIR, clones the repository into it and runs
# setup.sh there.  Root only; needs debootstrap.
#
#   tests/house/fresh-root.sh DIR [ARGUMENTS OF setup.sh]      (default: test)
#
# DIR is outside the repository and is used again if it holds such a root already; then only the
# clone is made anew.  The mirror is $DTRSCOPE_MIRROR, else the one that this machine's apt uses.
# The reference traces ($DTRSCOPE_SHARED, default ../shared) are copied beside the clone if they
# are there.
set -euo pipefail

if [ $# -lt 1 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
fi
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- test
case "$root/" in
"$repository"/* | /) echo "fresh-root.sh: choose a folder outside the repository" >&2; exit 2 ;;
esac

mirror_of_apt() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' |
        sort -u | grep '/debian/\?$' | head -n 1
}

# What this machine needs to reach its registries, and nothing else: names, proxies, certificates.
copy_network() {
    cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
    apt-config dump | grep -E '^Acquire::[a-z]+::Proxy ' >"$root/etc/apt/apt.conf.d/90proxy" || true
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
}

inside() {
    env -i HOME=/root TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${CI:+CI="$CI"} chroot "$root" "$@"
}

unmount() { for at in dev/shm dev proc; do umount -R "$root/$at" 2>/dev/null || true; done; }

if [ ! -e "$root/etc/debian_version" ]; then
    mirror=${DTRSCOPE_MIRROR:-$(mirror_of_apt)}
    debootstrap --variant=minbase bookworm "$root" "${mirror:?no mirror found; set DTRSCOPE_MIRROR}"
fi
copy_network
if [ ! -x "$root/usr/bin/git" ]; then
    inside apt-get update -q
    inside apt-get install -q -y --no-install-recommends git ca-certificates
    inside update-ca-certificates
fi

trap unmount EXIT
mount -t proc proc "$root/proc"
mount -t devtmpfs dev "$root/dev" 2>/dev/null || mount --rbind /dev "$root/dev"
mkdir -p "$root/dev/shm"
mount -t tmpfs shm "$root/dev/shm"

rm -rf "$root/root/dtrscope"
git -C "$repository" bundle create -q "$root/root/dtrscope.bundle" HEAD
inside git clone -q /root/dtrscope.bundle /root/dtrscope
shared=${DTRSCOPE_SHARED:-$repository/../shared}
if [ -d "$shared/traces" ]; then
    mkdir -p "$root/root/shared"
    cp -r "$shared/." "$root/root/shared/"
fi
inside /root/dtrscope/setup.sh "$@"
