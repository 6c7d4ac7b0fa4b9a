// Whether a task continues in the context in which it began to wait, in Node.js, Deno or Bun. Takes
// the path of the program that examples/requests.rs is built to.

import { AsyncLocalStorage } from "node:async_hooks";
import { createRequire } from "node:module";
import process from "node:process";

const { answer, pending } = createRequire(import.meta.url)(process.argv[2]);
const storage = new AsyncLocalStorage();
const turn = () => new Promise((resolve) => setTimeout(resolve, 1));

const waits = { A: 60, B: 40, C: 90, D: 91, E: 0, F: 0 };
const answers = [];
for (const [name, milliseconds] of Object.entries(waits)) {
    answers.push(storage.run(name, () => answer(milliseconds, () => storage.getStore())));
    // Tasks that begin in one turn are polled in the context of the first: no timer can mend that.
    await turn();
}
// Two that are due at once, by a clock that stands still while they are armed.
const real = Object.getOwnPropertyDescriptor(globalThis, "performance");
const now = performance.now();
Object.defineProperty(globalThis, "performance", { value: { now: () => now }, configurable: true });
for (const name of ["G", "H"]) {
    answers.push(storage.run(name, () => answer(20, () => storage.getStore())));
    await turn();
}
Object.defineProperty(globalThis, "performance", real);
const found = await Promise.all(answers);
console.log(found.join(" "), pending());
