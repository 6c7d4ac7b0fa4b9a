// Requests that sleep in workerd. Each has to be answered from its own. Takes the program of workerd
// and the folder with the worker from the environment.

import assert from "node:assert";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import http from "node:http";
import { after, before, describe, test } from "node:test";

const { WORKERD, REQUESTS, DATES = "2024-09-01" } = process.env;
const isNightly = "NIGHTLY" in process.env;

function config(main, date) {
    const modules = [`(name = "${main}", esModule = embed "${main}")`];
    if (main !== "worker.mjs") modules.push('(name = "worker.mjs", esModule = embed "worker.mjs")');
    modules.push('(name = "requests.js", esModule = embed "requests.js")');
    modules.push('(name = "requests_bg.wasm", wasm = embed "requests_bg.wasm")');
    return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
    services = [
        (name = "main", worker = .worker),
        (name = "local", network = (allow = ["local"])),
    ],
    sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
    modules = [${modules.join(", ")}],
    compatibilityDate = "${date}",
    globalOutbound = "local",
);
`;
}

// Starts workerd and returns what it answers by, and how it ends.
async function serve(main, date) {
    const file = `${REQUESTS}/${main}.${date}.capnp`;
    writeFileSync(file, config(main, date));
    const stdio = ["ignore", "inherit", "inherit", "pipe"];
    const server = spawn(WORKERD, ["serve", "--control-fd=3", file], { stdio });
    const [told] = await once(server.stdio[3], "data");
    const { port } = JSON.parse(String(told).split("\n")[0]);
    return {
        ask: (path, body = "", options = {}) =>
            fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body, ...options }),
        async end() {
            server.kill();
            await once(server, "exit");
        },
    };
}

for (const date of DATES.split(" ")) {
    describe(`workerd of ${date}`, () => {
        let worker;
        before(async () => { worker = await serve("worker.mjs", date) });
        after(() => worker.end());
        const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
        const answered = async (milliseconds, body) => {
            const response = await worker.ask(`/?ms=${milliseconds}`, body);
            assert.deepStrictEqual([response.status, await response.text()], [200, body]);
        };

        test("two requests that overlap are both answered, whichever is first", async () => {
            for (const waits of isNightly ? [[100, 200], [200, 100], [150, 150]] : [[200, 100]]) {
                const first = answered(waits[0], "first");
                await pause(30);
                await Promise.all([first, answered(waits[1], "second")]);
            }
            assert.strictEqual(await (await worker.ask("/pending")).text(), "0");
        });

        if (!isNightly) return;

        test("forty at once are all answered", async () => {
            const waits = Array.from({ length: 40 }, (_, at) => 50 + at * 7 % 40 * 10);
            await Promise.all(waits.map((wait, at) => answered(wait, `${at}`)));
        });

        test("a client that goes takes no other request with it", async () => {
            const client = new AbortController();
            const cut = worker.ask("/?ms=100", "cut", { signal: client.signal });
            await pause(50);
            client.abort();
            await assert.rejects(cut);
            await pause(100);
            await answered(50, "later");
        });

        test("a sleep of what is waited for goes on after the answer", async () => {
            const told = http.createServer((_, response) => response.end());
            await once(told.listen(0, "127.0.0.1"), "listening");
            const heard = once(told, "request");
            const tell = encodeURIComponent(`http://127.0.0.1:${told.address().port}/`);
            const response = await worker.ask(`/background?ms=100&tell=${tell}`);
            assert.strictEqual(await response.text(), "answered before");
            await heard;
            told.close();
        });

        test("more sleeps than a request may have timeouts harm no other request", async () => {
            const crowd = worker.ask("/crowd?ms=10050", "crowd").catch(() => {});
            await answered(50, "beside");
            await crowd;
            await answered(50, "after");
        });

        test("a sleep at module scope harms no request", async () => {
            const early = await serve("early.mjs", date);
            try {
                for (const body of ["first", "second"]) {
                    assert.strictEqual(await (await early.ask("/?ms=50", body)).text(), body);
                }
            } finally {
                await early.end();
            }
        });
    });
}
