// The server is killed under JavaScript workers and clients, which come back by themselves.

import { afterEach, beforeEach, it } from "node:test";
import assert from "node:assert/strict";
import { BEGIN, Hub, STARTED, Server, eventually } from "./support.js";

let server;
let hub;
beforeEach(async () => {
  server = await new Server().start();
  hub = new Hub(server);
});
afterEach(async () => {
  await hub.close();
  await server.close();
});

const activities = { echo: (_, number) => number };
const orchestrators = {
  chain: async function* (ctx, length) {
    let total = 0;
    for (let number = 0; number < length; number++) total += yield ctx.callActivity("echo", number);
    yield ctx.createTimer(0.1);
    return total;
  },
};

/** Knows whether a worker is connected, from what it says. */
function listening() {
  const logger = { isConnected: false };
  const hear = (message) => {
    if (/^Successfully connected/.test(message)) logger.isConnected = true;
    if (/retry/i.test(message)) logger.isConnected = false;
  };
  for (const level of ["error", "warn", "info", "debug"]) logger[level] = hear;
  return logger;
}

/** A question that is asked again while the server is away. */
async function away(ask) {
  try {
    return await ask();
  } catch {
    return undefined;
  }
}

for (const how of ["SIGKILL", "SIGTERM"]) {
  it(`the server ends by ${how} in the middle and comes back on the same file and port: behaviour-5 behaviour-6`, async () => {
    const length = 15;
    const loggers = [listening(), listening()];
    for (const logger of loggers) await hub.work({ orchestrators, activities, logger });
    const instances = [];
    for (let round = 0; round < 2; round++) {
      for (let number = 0; number < 4; number++) instances.push(await hub.start("chain", length));
      const last = instances.at(-1);
      await eventually("it is under way", async () => (await hub.history(last)).length > 6);
      const code = await server.signal(how);
      if (how === "SIGTERM") assert.equal(code, 0);
      await server.start();
      await eventually("the client is back", () => away(() => hub.status(last)));
    }
    const expected = [...BEGIN, "TaskScheduled#1 echo"];
    for (let number = 1; number < length; number++) {
      expected.push(STARTED, `TaskCompleted<${number}`, `TaskScheduled#${number + 1} echo`);
    }
    expected.push(STARTED, `TaskCompleted<${length}`, `TimerCreated#${length + 1}`);
    expected.push(STARTED, `TimerFired<${length + 1}`, `ExecutionCompleted#${length + 2} COMPLETED`);
    for (const instance of instances) {
      await eventually("it ends", async () => (await away(() => hub.status(instance))) === "COMPLETED");
      assert.equal(await hub.completed(instance), (length * (length - 1)) / 2);
      assert.deepEqual(await hub.history(instance), expected);
    }
    // A worker of this SDK that is stopped between two attempts connects all the same, and throws when its server ends.
    await eventually("both workers have come back", () => loggers.every((logger) => logger.isConnected));
  });
}
