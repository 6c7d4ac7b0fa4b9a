// The same worker, after a sleep at module scope, where the host has no timeouts.

import { answer } from "./requests.js";
import worker from "./worker.mjs";

answer(50, () => "never").catch(() => {});

export default worker;
