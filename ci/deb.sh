#!/usr/bin/env bash
# Builds the service's package for Debian, installs it in a clean root, and has it call back there.
# The package is left in target/deb.
#
#   ci/deb.sh                     with the programs of the release profile
#   ci/deb.sh --package           the package and its unit alone
#   ci/deb.sh --debug [..]        with the programs of the debug profile, which are large, and not
#                                 compressed; it is left in target/deb/debug
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

if ! command -v dpkg-deb >/dev/null; then
    not_checked "the package for Debian" "there is no dpkg-deb"
    exit
fi
flags=() compression=xz folder=target/deb allowed=()
if [ "${1:-}" = --debug ]; then
    shift
    flags=(--debug) compression=none folder=target/deb/debug
    allowed=(--suppress-tags uses-no-compression-for-control-tarball
        --suppress-tags uses-no-compression-for-data-tarball)
fi
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
# As docs/OPERATIONS.md has it for other systems. It shows how far it is, because it takes minutes.
cargo install --locked "${flags[@]}" --path crates/tourbillond --root "$base/installed"
programs=$base/installed/bin
sources=$PWD/crates/tourbillond

# find_lintian: sets `lintian` to the command; unpacks it with all that it needs if it is not
# installed. Fails where that cannot be done.
find_lintian() {
    lintian=(lintian)
    ! command -v lintian >/dev/null || return 0
    local needed perl
    needed=$(apt-get install -s --no-install-recommends lintian 2>/dev/null |
        awk '/^Inst/ && $2 != "perl-base" { print $2 }') || return
    # shellcheck disable=SC2086 # these are words
    [ -n "$needed" ] && unpack lintian $needed || return
    perl=$(echo "$debian"/lintian/usr/{share,lib/*-linux-gnu}/perl*{,/5.*} | tr ' ' :)
    lintian=(env PERL5LIB="$perl" PATH="$debian/lintian/usr/bin:$PATH"
        LD_LIBRARY_PATH="$(echo "$debian"/lintian/usr/lib/*-linux-gnu)"
        "$debian/lintian/usr/bin/lintian" --allow-root)
}

# --- the package

root=$base/package
version=$("$programs/tourbillond" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
for program in tourbillond tourbillonctl; do
    install -D -m 755 -s "$programs/$program" "$root/usr/bin/$program"
    "$programs/$program" man "$root/usr/share/man/man1"
    share=$root/usr/share
    mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
        "$share/fish/vendor_completions.d"
    "$programs/$program" completions bash >"$share/bash-completion/completions/$program"
    "$programs/$program" completions zsh >"$share/zsh/vendor-completions/_$program"
    "$programs/$program" completions fish >"$share/fish/vendor_completions.d/$program.fish"
done
gzip -9n "$root"/usr/share/man/man1/*
doc=$root/usr/share/doc/tourbillond
# Where the source has them, so that they find each other.
install -D -m 644 -t "$doc/docs" "$sources/docs"/*.md "$sources/docs/now-light.png" \
    "$sources/docs/schedules.png"
install -D -m 644 -t "$doc/deploy" "$sources/deploy/alerts.yaml" "$sources/deploy/dashboard.json" \
    "$sources/deploy/call.sql"
install -D -m 644 -t "$doc" "$sources/deploy/deb/README.Debian"
# Links to other crates lead out of the package.
sed 's/\[\([^]]*\)\](\.\.\/[^)]*)/\1/g' "$sources/README.md" >"$doc/README.md"
sed -i 's/\[\([^]]*\)\](\.\.\/\.\.\/[^)]*)/\1/g' "$doc/docs"/*.md
install -D -m 644 -t "$doc" "$sources/CHANGELOG.md"
maintainer=$(sed -n 's/^Maintainer: //p' "$sources/deploy/deb/control")
date=$(date -Rud "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}")
printf '%s (%s) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
    tourbillond "$version" "$maintainer" "$date" |
    gzip -9n >"$doc/changelog.gz"
install -D -m 644 "$sources/deploy/deb/lintian-overrides" \
    "$root/usr/share/lintian/overrides/tourbillond"
python3 ci/notices.py tourbillond | gzip -9n >"$doc/third-party-notices.gz"
# Apache's text is where each Debian has it.
{
    cat "$sources/deploy/deb/copyright"
    sed -n '3,$ { s/^$/./; s/^/ /; p }' "$sources/LICENSE-MIT"
} >"$doc/copyright"
unit=$root/usr/lib/systemd/system/tourbillond.service
mkdir -p "${unit%/*}"
# What its first lines say is done by the package.
sed -e '1,/^\[Unit\]/ { /^#/d }' -e 's|/usr/local/bin/|/usr/bin/|' \
    "$sources/deploy/tourbillond.service" >"$unit"
install -D -m 640 "$sources/deploy/deb/config.toml" "$root/etc/tourbillond/config.toml"

mkdir "$root/DEBIAN"
for script in postinst prerm postrm; do
    install -m 755 "$sources/deploy/deb/$script" "$root/DEBIAN"
done
echo /etc/tourbillond/config.toml >"$root/DEBIAN/conffiles"
# The newest version of a symbol of the C library that the programs need.
glibc=$(readelf --version-info --wide "$root"/usr/bin/* | grep -o 'GLIBC_2\.[0-9]*' |
    sort -uV | tail -n 1 | cut -d_ -f2)
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@GLIBC@/$glibc/" \
    -e "s/@SIZE@/$(du -ks "$root" | cut -f1)/" "$sources/deploy/deb/control" >"$root/DEBIAN/control"
chmod -R u=rwX,go=rX "$root"
chmod 750 "$root/etc/tourbillond"
chmod 640 "$root/etc/tourbillond/config.toml"
mkdir -p "$folder"
package=$folder/tourbillond_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z$compression" --build "$root" "$package" >/dev/null
echo "$package: $(stat -c %s "$package") bytes"

# --- what is in it, as it is unpacked

unpacked=$base/unpacked share_doc=/usr/share/doc/tourbillond
dpkg-deb --extract "$package" "$unpacked"
for program in tourbillond tourbillonctl; do
    "$unpacked/usr/bin/$program" --version | grep "^$program $version\>"
    grep -q "^.TH $program 1" <(zcat "$unpacked/usr/share/man/man1/$program.1.gz")
    bash -n "$unpacked/usr/share/bash-completion/completions/$program"
done
# Each file that a document points to is there.
for document in "$unpacked$share_doc"/*.md "$unpacked$share_doc"/docs/*.md; do
    for path in $(grep -o ']([^)#:]*)' "$document" | tr -d '])('); do
        [ -e "${document%/*}/$path" ] || { echo "$document: no $path"; exit 1; }
    done
done
for crate in ring rustls hyper; do
    grep -q "^  $crate [0-9]" <(zcat "$unpacked$share_doc/third-party-notices.gz")
done
if find_lintian; then
    "${lintian[@]}" --fail-on error,warning "${allowed[@]}" "$package"
else
    not_checked "the package by lintian" "it cannot be had here"
fi
[ "$(stat -c %a "$unpacked/etc/tourbillond" "$unpacked/etc/tourbillond/config.toml")" = "750
640" ]
analyze=(systemd-analyze)
if ! command -v systemd-analyze >/dev/null && unpack systemd systemd libsystemd-shared; then
    analyze=(env LD_LIBRARY_PATH="$(echo "$debian"/systemd/usr/lib/*-linux-gnu/systemd)"
        "$debian/systemd/usr/bin/systemd-analyze")
fi
if "${analyze[@]}" --version >/dev/null 2>&1; then
    # An exposure of 1.5, as docs/OPERATIONS.md says.
    "${analyze[@]}" security --offline=true --threshold=15 --root="$unpacked" \
        tourbillond.service | tail -n 1
else
    not_checked "the exposure of the service's unit" "there is no systemd-analyze"
fi
[ "${1:-}" != --package ] || exit 0

# --- a clean root

what="the package for Debian in a clean root"
if [ "$(id -u)" != 0 ] || ! chroot / true 2>/dev/null; then
    not_checked "$what" "this is not root, or may not chroot"
    exit
fi
# With what the package depends on beside it.
needed=ca-certificates
clean=$debian/clean-root-with-$needed
if [ ! -e "$clean/complete" ]; then
    rm -rf "$clean"
    if ! unpack debootstrap debootstrap ||
        ! DEBOOTSTRAP_DIR=$debian/debootstrap/usr/share/debootstrap \
            "$debian/debootstrap/usr/sbin/debootstrap" --variant=minbase \
            --include="$needed" bookworm "$clean" \
            "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$base/debootstrap" 2>&1; then
        tail -n 5 "$base/debootstrap" || true
        not_checked "$what" "Debian's base system cannot be had here"
        exit
    fi
    touch "$clean/complete"
fi
cp -a "$clean" "$base/root"
cp "$package" "$base/root/tmp/tourbillond.deb"

# inside COMMAND...: runs a command in the root, with nothing of this environment.
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$base/root" "$@"; }

inside dpkg --install /tmp/tourbillond.deb
inside tourbillond --version | grep "^tourbillond $version\>"
inside tourbillonctl --version | grep "^tourbillonctl $version\>"
[ "$(inside stat -c '%a %U:%G' /etc/tourbillond/config.toml)" = "640 root:tourbillond" ]
inside dpkg --verify tourbillond

# --- a first callback, by a user that may do no more than the unit lets it

python3 - "$base/address" >"$base/called" <<'PYTHON' &
import http.server, os, sys

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        print(self.path, body.decode(), flush=True)
    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
with open(sys.argv[1] + ".part", "w") as file:
    file.write("127.0.0.1:%d" % server.server_port)
os.rename(sys.argv[1] + ".part", sys.argv[1])
server.handle_request()
PYTHON
receiver=$!
state=$base/root/var/lib/tourbillond
install -d -m 700 -o 65534 -g 65534 "$state"
group=$(inside getent group tourbillond | cut -d: -f3)
env -i PATH=/usr/sbin:/usr/bin chroot --userspec=65534:65534 --groups="$group" "$base/root" \
    sh -c 'cd /var/lib/tourbillond &&
        exec tourbillond --config /etc/tourbillond/config.toml --listen 127.0.0.1:0' \
    >"$base/started" 2>"$base/log" &
service=$!
trap 'kill "$service" "$receiver" 2>/dev/null || true; rm -rf "$base"' EXIT
until [ -s "$base/started" ] && [ -e "$base/address" ]; do
    kill -0 "$service" || { cat "$base/log"; exit 1; }
    sleep 0.1
done
url=$(head -n 1 "$base/started")
inside tourbillonctl --url "$url" put first --after 0s \
    --to "http://$(cat "$base/address")/first" --body '{{app}}' >/dev/null
wait "$receiver"
[ "$(cat "$base/called")" = "/first default" ]
grep -q '"app":"default","key":"first","action":"put_schedule"' "$state/audit.jsonl"
kill -TERM "$service"
wait "$service"
ls "$state"

# --- and away again

inside dpkg --purge tourbillond
[ -z "$(find "$base/root/usr" "$base/root/etc" -name '*tourbillon*')" ]
[ -e "$state/tourbillon.db" ]
echo "installed, called back, and removed"
