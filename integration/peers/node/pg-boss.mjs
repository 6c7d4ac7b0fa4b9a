// pg-boss, answering the calls that src/peer.rs describes.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { PgBoss } from "pg-boss";

const KIND = "bench";
const BATCH = 1_000;
const FAR_MS = 86_400_000;
const now = () => performance.timeOrigin + performance.now();

const [call, address, ...words] = process.argv.slice(2);

function open(options = {}) {
  const boss = new PgBoss({ connectionString: address, ...options });
  boss.on("error", (error) => console.error(error.message));
  return boss.start();
}

async function oneByOne(boss, seconds) {
  const until = now() + seconds * 1_000;
  let count = 0;
  for (; now() < until; count += 1) {
    const due = Math.floor(now()) + FAR_MS;
    await boss.send(KIND, { due }, { startAfter: new Date(due) });
  }
  return count;
}

const settings = {
  // As in the first example of its documentation.
  default: {},
  // One connection, large batches, and no pause while a batch is full.
  one: {
    boss: { max: 1 },
    work: { batchSize: BATCH, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  },
  // The same by several workers. Its maintenance runs every two seconds.
  fast: {
    boss: { superviseIntervalSeconds: 2, monitorIntervalSeconds: 2 },
    work: {
      batchSize: BATCH,
      burstWhenBatchFull: true,
      localConcurrency: 4,
      pollingIntervalSeconds: 0.5,
    },
  },
};

async function work(name, expected, handler, file) {
  const starts = [];
  process.stdin.resume().on("end", () => {
    const lines = starts.map(([at, due]) => `${Math.round(at * 1_000)} ${due * 1_000}\n`);
    writeFileSync(file, lines.join(""));
    process.exit();
  });
  const boss = await open(settings[name].boss);
  await boss.work(KIND, settings[name].work ?? {}, async (jobs) => {
    for (const job of jobs) {
      starts.push([now(), job.data.due]);
      if (starts.length === expected) console.log("all");
    }
    if (handler === "hang") await new Promise(() => {});
  });
}

switch (call) {
  case "version": {
    const path = createRequire(import.meta.url).resolve("pg-boss");
    const description = new URL("../package.json", `file://${path}`);
    console.log(JSON.parse(readFileSync(description, "utf8")).version);
    break;
  }
  case "prepare": {
    const boss = await open();
    // A heartbeat is its quicker way to notice a dead worker.
    await boss.createQueue(KIND, { heartbeatSeconds: 15 });
    await boss.stop();
    break;
  }
  case "single": {
    const boss = await open();
    const [seconds, callers] = words.map(Number);
    const began = now();
    const all = Array.from({ length: callers }, () => oneByOne(boss, seconds));
    const count = (await Promise.all(all)).reduce((sum, own) => sum + own, 0);
    console.log(Math.round((count * 1_000) / (now() - began)));
    await boss.stop();
    break;
  }
  case "batch": {
    const boss = await open();
    const [count, from, span] = words.map(Number);
    const began = now();
    for (let first = 0; first < count; first += BATCH) {
      const jobs = Array.from({ length: Math.min(BATCH, count - first) }, (_, at) => {
        const due = from + Math.floor((span * (first + at)) / count);
        return { data: { due }, startAfter: new Date(due) };
      });
      await boss.insert(KIND, jobs);
    }
    console.log(Math.round((count * 1_000) / (now() - began)));
    await boss.stop();
    break;
  }
  case "work":
    await work(words[0], Number(words[1]), words[2], words[3]);
    break;
  default:
    throw new Error(`no call ${call}`);
}
