#!/usr/bin/env bash
# Callbacks to other people's servers that close idle connections after one second and after five,
# with schedules of these periods: Node.js, gunicorn, uvicorn, nginx, Go's and Java's. None of
# 20,000 attempts may fail.
#
#   ci/receivers.sh [ATTEMPTS [RECEIVER...]]
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

attempts=${1:-20000}
names=("${@:2}")
[ "${#names[@]}" -gt 0 ] || names=(node gunicorn uvicorn nginx go java)
modules=$(realpath -m target/receivers)
mkdir -p "$modules"

# has NAME: finds what that receiver needs.
has() {
    case $1 in
    gunicorn) installed "$modules/python" gunicorn 27.0.1 ;;
    uvicorn) installed "$modules/python" uvicorn 0.54.0 ;;
    nginx)
        # nginx itself reads a variable `NGINX`.
        NGINX_PROGRAM=$(command -v nginx) ||
            { unpack nginx nginx; NGINX_PROGRAM=$debian/nginx/usr/sbin/nginx; }
        export NGINX_PROGRAM
        [ -x "$NGINX_PROGRAM" ]
        ;;
    go)
        local go
        go=$(command -v go) ||
            { unpack go golang-1.19-go golang-1.19-src; go=$debian/go/usr/lib/go-1.19/bin/go; }
        export GO_RECEIVER=$modules/receiver
        CGO_ENABLED=0 GOCACHE=$modules/cache "$go" build -o "$GO_RECEIVER" \
            crates/tourbillond/receivers/receiver.go
        ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

found=()
for name in "${names[@]}"; do
    if has "$name"; then
        found+=("$name")
    else
        not_checked "callbacks to $name" "it is not here"
    fi
done
export PYTHONPATH=$modules/python
build_durable tourbillond
python3 crates/tourbillond/receivers/storm.py \
    "${CARGO_TARGET_DIR:-target}/debug/tourbillond" "$attempts" "${found[@]}"
