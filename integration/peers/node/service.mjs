// The usual substitute for a service, answering the calls of src/service.rs: a library, and a
// worker whose handler calls back by HTTP.

import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";
import { PgBoss } from "pg-boss";

const KIND = "callback";
const BATCH = 1_000;
const FAR_MS = 86_400_000;
const CONNECTIONS = 256;
const now = () => performance.timeOrigin + performance.now();

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, noDelay: true });

function post(url, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const call = request(url, { method: "POST", agent, headers }, (answer) => {
      answer.resume().on("end", () => {
        if (answer.statusCode >= 200 && answer.statusCode < 300) resolve();
        else reject(new Error(`answered with ${answer.statusCode}`));
      });
    });
    call.on("error", reject).end(body);
  });
}

async function pgBoss(address) {
  const boss = new PgBoss({ connectionString: address });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  return {
    prepare: () => boss.createQueue(KIND),
    make: (id, due) => boss.send(KIND, { due }, { id, startAfter: new Date(due) }),
    async read(id) {
      const [job] = await boss.findJobs(KIND, { id });
      return job;
    },
    makeMany: (dues) =>
      boss.insert(KIND, dues.map((due) => ({ data: { due }, startAfter: new Date(due) }))),
    work: (run) =>
      boss.work(
        KIND,
        {
          batchSize: BATCH,
          burstWhenBatchFull: true,
          localConcurrency: 4,
          pollingIntervalSeconds: 0.5,
        },
        (jobs) => Promise.all(jobs.map((job) => run(job.data))),
      ),
    end: () => boss.stop(),
  };
}

async function bullmq(address) {
  const connection = new Redis(address, { maxRetriesPerRequest: null });
  const queue = new Queue(KIND, { connection });
  const options = (due) => ({ delay: Math.max(0, due - Date.now()) });
  return {
    prepare: () => queue.waitUntilReady(),
    make: (id, due) => queue.add(KIND, { due }, { jobId: id, ...options(due) }),
    read: (id) => queue.getJob(id),
    makeMany: (dues) =>
      queue.addBulk(dues.map((due) => ({ name: KIND, data: { due }, opts: options(due) }))),
    work: async (run) => {
      const own = connection.duplicate();
      new Worker(KIND, (job) => run(job.data), { connection: own, concurrency: CONNECTIONS });
    },
    end: async () => {
      await queue.close();
      connection.disconnect();
    },
  };
}

const [system, call, address, ...words] = process.argv.slice(2);
const peer = await { "pg-boss": pgBoss, bullmq }[system](address);

// So many callers do one after the other; prints how many a second.
async function flood(seconds, callers, step) {
  const began = now();
  const caller = async () => {
    let count = 0;
    for (; now() < began + seconds * 1_000; count += 1) await step();
    return count;
  };
  const counts = await Promise.all(Array.from({ length: callers }, caller));
  const count = counts.reduce((sum, own) => sum + own, 0);
  console.log(Math.round((count * 1_000) / (now() - began)));
}

switch (call) {
  case "prepare":
    await peer.prepare();
    await peer.end();
    break;
  case "make":
    await flood(...words.map(Number), () => peer.make(randomUUID(), Math.floor(now()) + FAR_MS));
    await peer.end();
    break;
  case "read": {
    const ids = Array.from({ length: 64 * 20 }, () => randomUUID());
    await Promise.all(ids.map((id) => peer.make(id, Math.floor(now()) + FAR_MS)));
    let next = 0;
    await flood(...words.map(Number), async () => {
      next += 1;
      if (!(await peer.read(ids[next % ids.length]))) throw new Error("a job is not there");
    });
    await peer.end();
    break;
  }
  case "batch": {
    const [count, from, span] = words.map(Number);
    for (let first = 0; first < count; first += BATCH) {
      const length = Math.min(BATCH, count - first);
      const due = (_, at) => from + Math.floor((span * (first + at)) / count);
      await peer.makeMany(Array.from({ length }, due));
    }
    await peer.end();
    break;
  }
  case "work":
    await peer.work((data) => post(words[0], JSON.stringify(data)));
    break;
  default:
    throw new Error(`no call ${call}`);
}
