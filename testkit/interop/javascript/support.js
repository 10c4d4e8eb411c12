// One server for each test file, one task hub for each test, and histories as lines that can be compared.

import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import assert from "node:assert/strict";
import grpc from "@grpc/grpc-js";
import { NoOpLogger, TaskHubGrpcClient, TaskHubGrpcWorker, OrchestrationStatus } from "@microsoft/durabletask-js";

// How long anything may take that is expected to happen. Two cores run all test files at once: this is not a latency.
export const PATIENCE_SECONDS = 60;
const POLL_MILLISECONDS = 20;
const START_MILLISECONDS = 30_000;
// Where the system can, a server dies with the tests that started it, however those end.
const MORTAL = spawnSync("setpriv", ["--version"]).status === 0 ? ["setpriv", "--pdeathsig", "KILL"] : [];
const LINE = /^grpc http:\/\/(\S+)$/;

/** One `dauer serve` of our own. File and port stay the same when it is killed and started again. */
export class Server {
  constructor(folder = mkdtempSync(join(tmpdir(), "dauer-interop-"))) {
    this.folder = folder;
    this.host = "127.0.0.1:0";
  }

  async start() {
    const program = process.env.DAUER;
    assert(program, "DAUER must hold the absolute path of the dauer binary");
    const store = `sqlite:${join(this.folder, "hub.db")}`;
    // This SDK brings no answer from before a restart: the activity runs again after the grace.
    const graces = ["--restart-grace", "10s", "--reconnect-grace", "2s"];
    const stated = ["serve", "--store", store, "--grpc", this.host, "--http", "off", ...graces];
    const log = createWriteStream(join(this.folder, "server.log"), { flags: "a" });
    await once(log, "open");
    const command = [...MORTAL, program, ...stated];
    this.process = spawn(command[0], command.slice(1), { cwd: this.folder, stdio: ["ignore", "pipe", log] });
    this.ended = once(this.process, "exit");
    const reading = (async () => {
      for await (const line of createInterface({ input: this.process.stdout })) {
        const matched = LINE.exec(line.trim());
        if (matched) return matched[1];
      }
      throw new Error(`the server ended before it listened; see ${this.folder}/server.log`);
    })();
    this.host = await within(START_MILLISECONDS, "the server listens", reading);
    // Whatever it prints from now on is read and dropped: a full pipe would stop it.
    this.process.stdout.resume();
    return this;
  }

  async signal(name) {
    this.process.kill(name);
    const [code] = await within(START_MILLISECONDS, `the server ends after ${name}`, this.ended);
    return code;
  }

  async close() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      assert.equal(await this.signal("SIGTERM"), 0, `see ${this.folder}/server.log`);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function within(milliseconds, what, promise) {
  const abort = new AbortController();
  const late = delay(milliseconds, undefined, { signal: abort.signal }).then(() => {
    throw new Error(`not within ${milliseconds} ms: ${what}`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    abort.abort();
    late.catch(() => {});
  }
}

/** Waits until `probe` gives something true, and returns it. */
export async function eventually(what, probe, seconds = PATIENCE_SECONDS) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const found = await probe();
    if (found) return found;
    await delay(POLL_MILLISECONDS);
  }
  throw new Error(`not within ${seconds} s: ${what}`);
}

/** Everything that a test does with its task hub. */
export class Hub {
  constructor(server, name = `hub${randomUUID().replaceAll("-", "").slice(0, 12)}`) {
    this.server = server;
    this.name = name;
    this.workers = [];
    this.client = new TaskHubGrpcClient(this.options());
  }

  /** The header that chooses the hub, as the azuremanaged clients send it. */
  options(more = {}) {
    const metadataGenerator = async () => {
      const metadata = new grpc.Metadata();
      metadata.set("taskhub", this.name);
      return metadata;
    };
    return { hostAddress: this.server.host, metadataGenerator, logger: new NoOpLogger(), ...more };
  }

  /** A started worker; `orchestrators` and `activities` are objects of functions by name. */
  async work({ orchestrators = {}, activities = {}, count = 1, ...more }) {
    for (let made = 0; made < count; made++) {
      const worker = new TaskHubGrpcWorker(this.options(more));
      for (const [name, run] of Object.entries(orchestrators)) worker.addNamedOrchestrator(name, run);
      for (const [name, run] of Object.entries(activities)) worker.addNamedActivity(name, run);
      await worker.start();
      this.workers.push(worker);
    }
  }

  start(name, input, options) {
    return this.client.scheduleNewOrchestration(name, input, options);
  }

  async result(instance) {
    const state = await this.client.waitForOrchestrationCompletion(instance, true, PATIENCE_SECONDS);
    assert(state, `${instance} does not exist`);
    return state;
  }

  async completed(instance) {
    const state = await this.result(instance);
    const why = state.failureDetails?.message;
    assert.equal(OrchestrationStatus[state.runtimeStatus], "COMPLETED", why);
    return state.serializedOutput ? JSON.parse(state.serializedOutput) : undefined;
  }

  async status(instance) {
    const state = await this.client.getOrchestrationState(instance);
    return state && OrchestrationStatus[state.runtimeStatus];
  }

  until(instance, status) {
    return eventually(`${instance} is ${status}`, async () => (await this.status(instance)) === status);
  }

  /** Waits until the orchestration says that it has come so far. */
  untilCustom(instance, value) {
    return eventually(`${instance} says ${value}`, async () => {
      const state = await this.client.getOrchestrationState(instance, true);
      return state?.serializedCustomStatus === JSON.stringify(value);
    });
  }

  async history(instance) {
    return (await this.client.getOrchestrationHistory(instance)).map(render);
  }

  async assertHistory(instance, ...expected) {
    assertShape(await this.history(instance), expected.flat());
  }

  async close() {
    await Promise.all(this.workers.map((worker) => worker.stop()));
    await this.client.stop();
  }
}

export const STARTED = "OrchestratorStarted";
/** The first turn of every run. */
export const BEGIN = [STARTED, "ExecutionStarted#0"];

/** Lines whose order is not fixed; each may have begun a turn of its own. */
export class Race {
  constructor(...lines) {
    this.lines = lines;
  }
}

/** One event as one line: kind, id, what it answers, name. An event without a time is an error. */
function render(event) {
  assert(event.timestamp instanceof Date && event.timestamp.getFullYear() > 2000, `${event.type} has no timestamp`);
  let line = event.eventId === -1 ? event.type : `${event.type}#${event.eventId}`;
  const answers = event.timerId ?? event.taskScheduledId;
  if (answers !== undefined) line += `<${answers}`;
  if (event.type === "ExecutionStarted") return line;
  if (event.type === "ExecutionCompleted") return `${line} ${event.orchestrationStatus.replace("ORCHESTRATION_STATUS_", "")}`;
  return event.name ? `${line} ${event.name}` : line;
}

function assertShape(found, expected) {
  const whole = `the whole history:\n  ${found.join("\n  ")}`;
  const rest = [...found];
  for (const item of expected) {
    if (!(item instanceof Race)) {
      assert.equal(rest.shift(), item, whole);
      continue;
    }
    const open = [...item.lines];
    while (open.length > 0) {
      const line = rest.shift();
      if (line === STARTED) continue;
      const index = open.indexOf(line);
      assert(index >= 0, `${line} instead of one of ${open}; ${whole}`);
      open.splice(index, 1);
    }
  }
  assert.deepEqual(rest, [], whole);
}

/** The gRPC code of a call that must fail. */
export async function codeOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code === undefined ? error.message : grpc.status[error.code];
  }
  throw new Error("the call did not fail");
}
