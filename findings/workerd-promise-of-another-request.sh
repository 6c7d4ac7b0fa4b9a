#!/usr/bin/env bash
# workerd 1.20261117.1 (npm): a request that waits only for a promise which another request's timeout
# settles, 60 ms later, is not answered then: it fails at once with 500, as one that "had hung". With any
# timeout of its own, a minute long, it is answered when the promise is settled.
#
# Seen: "waits for another's: 500", "and has a timeout of its own: 200".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund workerd@1.20261117.1
cat >worker.mjs <<'END'
const waiting = [];

export default {
    async fetch(request) {
        const { pathname } = new URL(request.url);
        if (pathname === "/settles") {
            await new Promise((resolve) => setTimeout(resolve, 60));
            for (const resolve of waiting.splice(0)) resolve();
            return new Response();
        }
        if (pathname === "/own") setTimeout(() => {}, 60_000);
        await new Promise((resolve) => waiting.push(resolve));
        return new Response();
    },
};
END
cat >config.capnp <<'END'
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
    services = [(name = "main", worker = (
        modules = [(name = "worker.mjs", esModule = embed "worker.mjs")],
        compatibilityDate = "2026-03-01",
    ))],
    sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
END
cat >ask.mjs <<'END'
import { spawn } from "node:child_process";
import { once } from "node:events";

const stdio = ["ignore", "ignore", "ignore", "pipe"];
process.once("SIGTERM", () => process.exit(1));
const server = spawn("node_modules/.bin/workerd", ["serve", "--control-fd=3", "config.capnp"], { stdio });
process.once("exit", () => server.kill("SIGKILL"));
const [told] = await once(server.stdio[3], "data");
const { port } = JSON.parse(String(told).split("\n")[0]);
const ask = async (path) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
const beside = async (path) => (await Promise.all([ask(path), ask("/settles")]))[0];
const [other, own] = [await beside("/"), await beside("/own")];
console.log(`waits for another's: ${other}`);
console.log(`and has a timeout of its own: ${own}`);
process.exit(Number(other !== 500 || own !== 200));
END
timeout 60 node ask.mjs
