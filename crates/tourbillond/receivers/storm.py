"""Schedules that call other people's servers just as these close idle connections.

storm.py TOURBILLOND ATTEMPTS RECEIVER...: starts the service and the receivers, each with a limit of
one second and one of five, and schedules with these periods, so that each call meets its end. Ends
once there were so many attempts. Fails if a run has died, as no receiver refuses anything.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
# Seconds, and schedules: as many attempts for either.
LIMITS = {1: 20, 5: 100}
PATIENCE = 900

started = []


def start(command, **options):
    process = subprocess.Popen(command, start_new_session=True, **options)
    started.append(process)
    return process


def command(name, host, port, seconds, folder):
    """The command of a receiver."""
    if name == "node":
        return ["node", HERE / "node.mjs", host, str(port), str(seconds)]
    if name == "java":
        idle = f"-Dsun.net.httpserver.idleInterval={seconds}"
        return ["java", idle, HERE / "Receiver.java", host, str(port)]
    if name == "go":
        return [os.environ["GO_RECEIVER"], f"{host}:{port}", str(seconds)]
    if name == "gunicorn":
        options = ["--worker-class", "gthread", "--threads", "8", "--log-level", "error"]
        options += ["--keep-alive", str(seconds), "--bind", f"{host}:{port}", "receiver:wsgi"]
        options += ["--no-control-socket"]
        return [sys.executable, "-m", "gunicorn", "--chdir", str(HERE), *options]
    if name == "uvicorn":
        options = ["--host", host, "--port", str(port), "--timeout-keep-alive", str(seconds)]
        options += ["--log-level", "error", "--app-dir", str(HERE), "receiver:asgi"]
        return [sys.executable, "-m", "uvicorn", *options]
    assert name == "nginx", name
    text = (HERE / "nginx.conf").read_text()
    named = {"HOST": host, "PORT": port, "SECONDS": seconds, "FOLDER": folder}
    for word, value in named.items():
        text = text.replace(word, str(value))
    folder.mkdir()
    (folder / "nginx.conf").write_text(text)
    return [os.environ["NGINX_PROGRAM"], "-p", folder, "-c", folder / "nginx.conf"]


def free_port(host):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def wait_for(what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = what()
            if found:
                return found
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        except OSError:
            pass
        if any(process.poll() is not None for process in started):
            sys.exit("a program has ended by itself")
        time.sleep(0.1)
    sys.exit("it takes too long")


def answers(host, port):
    socket.create_connection((host, port), timeout=1).close()
    return True


def ask(url, method="GET", body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} if data else {}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def outcomes(url):
    """Callbacks by app and outcome."""
    pattern = r'^tourbillond_callbacks_total\{app="([^"]+)",outcome="([^"]+)"\} (\d+)$'
    found = {}
    for app, outcome, count in re.findall(pattern, ask(f"{url}/metrics"), re.MULTILINE):
        found.setdefault(app, {})[outcome] = int(count)
    return found


def storm(program, attempts, names, folder):
    apps = [(name, seconds) for name in names for seconds in LIMITS]
    hosts = {app: f"127.0.1.{number}" for number, app in enumerate(apps, 1)}
    ports = {app: free_port(host) for app, host in hosts.items()}
    for app in apps:
        (name, seconds), place = app, folder / f"{app[0]}-{app[1]}"
        start(command(name, hosts[app], ports[app], seconds, place))
    for app in apps:
        wait_for(lambda app=app: answers(hosts[app], ports[app]))
    rules = "networks = ['127.0.0.0/8']\nlimits = { concurrent = 400, per_host = 200 }\n"
    config = "".join(f"[apps.{name}-{seconds}s]\n{rules}" for name, seconds in apps)
    (folder / "apps.toml").write_text(config)
    log = "warn,tourbillond::dispatch::client=debug"
    options = ["--listen", "127.0.0.1:0", "--config", "apps.toml", "--log", log]
    with open(folder / "url", "w") as url, open(folder / "log", "w") as log:
        start([program, *options], cwd=folder, stdout=url, stderr=log)
    url = wait_for((folder / "url").read_text).strip()
    for name, seconds in apps:
        target = f"http://{hosts[name, seconds]}:{ports[name, seconds]}/"
        # So long that a busy machine is no failure of a receiver's.
        callback = {"url": target, "body": "{{key}}", "timeout": "5m"}
        every = {"when": {"every": f"{seconds}s"}, "retry": {"attempts": 1}, "callback": callback}
        for number in range(LIMITS[seconds]):
            path = f"/v1/apps/{name}-{seconds}s/schedules/s{number}"
            # A busy machine's service may ask for a PUT once more.
            wait_for(lambda path=path: ask(url + path, "PUT", every))
    wait_for(lambda: sum(sum(of.values()) for of in outcomes(url).values()) >= attempts)
    return url, hosts


def report(url, hosts, folder):
    """Prints what came of each receiver. Returns whether all is well."""
    log, ended, is_good = (folder / "log").read_text(), outcomes(url), True
    for (name, seconds), host in hosts.items():
        of = ended.get(f"{name}-{seconds}s", {})
        again = len(re.findall(rf'sent again.*host="?{re.escape(host)}"?\s', log))
        failed = sum(of.values()) - of.get("succeeded", 0)
        counts = f"{sum(of.values()):6} attempts, {again:4} sent again, {failed} failed"
        print(f"{name:9} {seconds} s: {counts}")
        is_good &= failed == 0 and of.get("succeeded", 0) > 0
        if failed:
            print(ask(f"{url}/v1/apps/{name}-{seconds}s/runs?state=dead&limit=3"))
    return is_good


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("it was ended"))
    program, attempts, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="tourbillond-receivers.") as folder:
        try:
            url, hosts = storm(os.path.abspath(program), int(attempts), names, Path(folder))
            is_good = report(url, hosts, Path(folder))
        finally:
            for process in started:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    sys.exit(not is_good)


main()
