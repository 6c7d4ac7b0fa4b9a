#!/usr/bin/env bash
# gunicorn 27.0.1 (PyPI): all servers of one user have one control socket, by default
# `~/.gunicorn/gunicorn.ctl`. A second server takes it without a word: from then on `gunicornc` speaks with the
# second alone. As that ends it removes the socket, and `gunicornc` reaches nobody, though the first server
# still answers. Each needs `--control-socket` of its own, or `--no-control-socket`.
#
# Seen: "asked after the first start: the first", "after the second: the second", "after its end: none; the
# first server's answer: well".
set -euo pipefail
cd "$(mktemp -d)"
HOME=$PWD
export HOME PIP_DISABLE_PIP_VERSION_CHECK=1
unset XDG_RUNTIME_DIR
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait; rm -rf "$HOME"' EXIT
python3 -m venv venv
venv/bin/pip install --quiet gunicorn==27.0.1
cat >app.py <<'END'
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"well"]
END

# start NAME: a server that is ready, and whose control socket is there.
start() {
    venv/bin/gunicorn --bind "unix:$PWD/$1.sock" app:app 2>"$1.log" &
    servers+=($!)
    until [ -S "$1.sock" ] && grep -q 'Control socket listening' "$1.log"; do sleep 0.1; done
    sleep 1
}
asked() {
    local pid
    pid=$(venv/bin/gunicornc --json --command 'show stats' 2>/dev/null |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])' 2>/dev/null) || pid=
    case $pid in
    "") echo none ;;
    "${servers[0]}") echo the first ;;
    *) echo the second ;;
    esac
}
start one
first=$(asked)
start two
second=$(asked)
kill "${servers[1]}" && wait "${servers[1]}" || true
none=$(asked)
answer=$(curl -sS --unix-socket one.sock http://localhost/)
echo "asked after the first start: $first"
echo "after the second: $second"
echo "after its end: $none; the first server's answer: $answer"
[ "$first, $second, $none, $answer" = "the first, the second, none, well" ]
