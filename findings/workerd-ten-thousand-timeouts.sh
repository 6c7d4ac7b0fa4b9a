#!/usr/bin/env bash
# workerd 1.20261117.1 (npm): a request may have 10,000 timeouts. The next `setTimeout` throws a
# QuotaExceededError, which no other JavaScript host's does. Those that are set stay.
#
# Seen: "set 10000, then QuotaExceededError; 10000 have come".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund workerd@1.20261117.1
cat >worker.mjs <<'END'
export default {
    async fetch() {
        let [set, come, error] = [0, 0, "none"];
        await new Promise((resolve) => {
            try {
                for (; set < 10_050; set++) setTimeout(() => ++come === set && resolve(), 20);
            } catch (thrown) {
                error = thrown.name;
            }
        });
        return new Response(`set ${set}, then ${error}; ${come} have come`);
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
const found = await (await fetch(`http://127.0.0.1:${port}/`)).text();
console.log(found);
process.exit(Number(found !== "set 10000, then QuotaExceededError; 10000 have come"));
END
timeout 60 node ask.mjs
