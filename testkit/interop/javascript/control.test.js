// Retries, continue-as-new, suspend, terminate, rewind, restart, versions, filters, queries and purge by the JavaScript SDK.

import { after, before, afterEach, beforeEach, describe, it } from "node:test";
import assert from "node:assert/strict";
import {
  OrchestrationStatus,
  PurgeInstanceCriteria,
  RetryPolicy,
  VersionFailureStrategy,
  VersionMatchStrategy,
  terminateOptions,
} from "@microsoft/durabletask-js";
import { BEGIN, Hub, Race, STARTED, Server, codeOf, eventually } from "./support.js";

const server = new Server();
let hub;
before(() => server.start());
after(() => server.close());
beforeEach(() => (hub = new Hub(server)));
afterEach(() => hub.close());

const retry = new RetryPolicy({ maxNumberOfAttempts: 3, firstRetryIntervalInMilliseconds: 30 });
const simple = async (_, what) => what ?? null;
const waits = async function* (ctx) {
  ctx.setCustomStatus("waiting");
  return yield ctx.waitForExternalEvent("go");
};
const fails = async () => {
  throw new Error("no");
};

/** Throws twice, then succeeds. */
function flaky() {
  let calls = 0;
  const run = (_, what) => {
    calls += 1;
    if (calls < 3) throw new Error(`attempt ${calls}`);
    return what;
  };
  return { run, calls: () => calls };
}

for (const count of [1, 2]) {
  describe(`with ${count} worker(s)`, () => {
    it("a retried activity has a new id each time: behaviour-24", async () => {
      const { run, calls } = flaky();
      const stubborn = async function* (ctx, what) {
        return yield ctx.callActivity("run", what, { retry });
      };
      await hub.work({ orchestrators: { stubborn }, activities: { run }, count });
      const instance = await hub.start("stubborn", "seven");
      assert.equal(await hub.completed(instance), "seven");
      assert.equal(calls(), 3);
      await hub.assertHistory(
        instance,
        BEGIN,
        "TaskScheduled#1 run",
        [STARTED, "TaskFailed<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "TaskScheduled#3 run"],
        [STARTED, "TaskFailed<3", "TimerCreated#4"],
        [STARTED, "TimerFired<4", "TaskScheduled#5 run"],
        [STARTED, "TaskCompleted<5", "ExecutionCompleted#6 COMPLETED"],
      );
    });

    it("a retried child has the same instance id each time: behaviour-24", async () => {
      const { run, calls } = flaky();
      const child = async (_, what) => run(_, what);
      const parent = async function* (ctx, what) {
        return yield ctx.callSubOrchestrator("child", what, { retry });
      };
      await hub.work({ orchestrators: { parent, child }, count });
      const instance = await hub.start("parent", "five");
      assert.equal(await hub.completed(instance), "five");
      assert.equal(calls(), 3);
      const events = await hub.client.getOrchestrationHistory(instance);
      const children = new Set(events.filter((event) => event.instanceId).map((event) => event.instanceId));
      await hub.assertHistory(
        instance,
        BEGIN,
        "SubOrchestrationInstanceCreated#1 child",
        [STARTED, "SubOrchestrationInstanceFailed<1", "TimerCreated#2"],
        [STARTED, "TimerFired<2", "SubOrchestrationInstanceCreated#3 child"],
        [STARTED, "SubOrchestrationInstanceFailed<3", "TimerCreated#4"],
        [STARTED, "TimerFired<4", "SubOrchestrationInstanceCreated#5 child"],
        [STARTED, "SubOrchestrationInstanceCompleted<5", "ExecutionCompleted#6 COMPLETED"],
      );
      assert.equal(children.size, 1, [...children].join());
      await hub.assertHistory([...children][0], BEGIN, "ExecutionCompleted#1 COMPLETED");
    });

    it("no event is lost by continue-as-new: behaviour-28", async () => {
      const total = 100;
      const mailbox = async function* (ctx, taken) {
        const item = yield ctx.waitForExternalEvent("item");
        taken.push(item);
        if (taken.length === total) return taken;
        ctx.continueAsNew(taken, true);
      };
      await hub.work({ orchestrators: { mailbox }, count });
      const instance = await hub.start("mailbox", []);
      for (let number = 0; number < total; number++) {
        await hub.client.raiseOrchestrationEvent(instance, "item", number);
      }
      assert.deepEqual(await hub.completed(instance), Array.from({ length: total }, (_, number) => number));
      const found = await hub.history(instance);
      assert.deepEqual(found.slice(0, 2), BEGIN);
      assert.deepEqual(found.slice(-2), ["EventRaised item", "ExecutionCompleted#1 COMPLETED"]);
    });

    it("suspended, nothing runs; resumed, it goes on: behaviour-30", async () => {
      await hub.work({ orchestrators: { waits, simple }, count });
      const instance = await hub.start("waits");
      await hub.untilCustom(instance, "waiting");
      await hub.client.suspendOrchestration(instance);
      await hub.until(instance, "SUSPENDED");
      await hub.client.raiseOrchestrationEvent(instance, "go", "went");
      assert.equal(await hub.completed(await hub.start("simple", "other")), "other");
      assert.equal(await hub.status(instance), "SUSPENDED");
      await hub.client.resumeOrchestration(instance);
      assert.equal(await hub.completed(instance), "went");
      await hub.assertHistory(
        instance,
        BEGIN,
        [STARTED, "ExecutionSuspended", STARTED],
        new Race("ExecutionResumed", "EventRaised go"),
        "ExecutionCompleted#1 COMPLETED",
      );
    });

    it("terminate, recursively and not: behaviour-31", async () => {
      const parent = async function* (ctx) {
        ctx.setCustomStatus("waiting");
        return yield ctx.callSubOrchestrator("waits");
      };
      await hub.work({ orchestrators: { parent, waits }, count });
      for (const recursive of [true, false]) {
        const instance = await hub.start("parent");
        const child = await eventually("the child", async () => {
          const events = await hub.client.getOrchestrationHistory(instance);
          return events.find((event) => event.instanceId)?.instanceId;
        });
        await eventually("it waits", async () => (await hub.status(child)) === "RUNNING");
        await hub.client.terminateOrchestration(instance, terminateOptions({ output: { why: "enough" }, recursive }));
        const state = await hub.result(instance);
        assert.equal(OrchestrationStatus[state.runtimeStatus], "TERMINATED");
        assert.equal(state.serializedOutput, JSON.stringify({ why: "enough" }));
        await hub.assertHistory(
          instance,
          BEGIN,
          "SubOrchestrationInstanceCreated#1 waits",
          [STARTED, "ExecutionTerminated", "ExecutionCompleted#2 TERMINATED"],
        );
        if (recursive) {
          await hub.until(child, "TERMINATED");
        } else {
          assert.equal(await hub.status(child), "RUNNING");
          await hub.client.raiseOrchestrationEvent(child, "go", "alive");
          assert.equal(await hub.completed(child), "alive");
        }
      }
    });

    it("rewind does again what failed, and only that: behaviour-54", async () => {
      let broken = true;
      const calls = { good: 0, bad: 0 };
      const activities = {
        good: () => (calls.good += 1),
        bad: () => {
          calls.bad += 1;
          if (broken) throw new Error("broken");
          return "mended";
        },
      };
      const child = async function* (ctx) {
        return yield ctx.callActivity("bad");
      };
      const parent = async function* (ctx) {
        yield ctx.callActivity("good");
        return yield ctx.callSubOrchestrator("child");
      };
      await hub.work({ orchestrators: { parent, child }, activities, count });
      const instance = await hub.start("parent");
      assert.equal(OrchestrationStatus[(await hub.result(instance)).runtimeStatus], "FAILED");
      broken = false;
      await hub.client.rewindInstance(instance, "mended");
      assert.equal(await hub.completed(instance), "mended");
      assert.deepEqual(calls, { good: 1, bad: 2 });
      const found = await hub.history(instance);
      assert(found.includes("ExecutionRewound") && !found.includes("SubOrchestrationInstanceFailed<2"), found.join("\n"));
      assert.deepEqual(found.slice(-2), ["SubOrchestrationInstanceCompleted<2", "ExecutionCompleted#3 COMPLETED"]);
    });
  });
}

it("a timer of the run before does not fire into this one: behaviour-28", async () => {
  const twoRuns = async function* (ctx, second) {
    if (!second) {
      ctx.createTimer(0.2);
      ctx.continueAsNew(true, false);
      return;
    }
    const begun = ctx.currentUtcDateTime.getTime();
    yield ctx.createTimer(0.9);
    return ctx.currentUtcDateTime.getTime() - begun;
  };
  await hub.work({ orchestrators: { twoRuns } });
  const instance = await hub.start("twoRuns", false);
  const took = await hub.completed(instance);
  assert(took >= 899, `woken after ${took} ms by the timer of the run before`);
  await hub.assertHistory(instance, BEGIN, "TimerCreated#1", [STARTED, "TimerFired<1", "ExecutionCompleted#2 COMPLETED"]);
});

it("rewind and restart are refused with their codes: behaviour-53 behaviour-54", async () => {
  await hub.work({ orchestrators: { waits } });
  const instance = await hub.start("waits");
  await hub.untilCustom(instance, "waiting");
  // The SDK makes errors of its own out of the codes.
  await assert.rejects(hub.client.rewindInstance("nobody", ""), /not found/i);
  await assert.rejects(hub.client.rewindInstance(instance, ""), /not allow|precondition|running/i);
  await assert.rejects(hub.client.restartOrchestration("nobody"), /not found/i);
  await assert.rejects(hub.client.restartOrchestration(instance), /cannot be restarted|precondition|running/i);
  const other = await hub.client.restartOrchestration(instance, true);
  assert.notEqual(other, instance);
  await hub.client.raiseOrchestrationEvent(other, "go", "other");
  assert.equal(await hub.completed(other), "other");
  assert.equal(await hub.status(instance), "RUNNING");
});

it("restart takes the same input again: behaviour-53", async () => {
  let runs = 0;
  const once = async (_, what) => `${what} ${(runs += 1)}`;
  await hub.work({ orchestrators: { once } });
  const instance = await hub.start("once", "input", { version: "1.0.0" });
  assert.equal(await hub.completed(instance), "input 1");
  assert.equal(await hub.client.restartOrchestration(instance), instance);
  await eventually("it ran again", async () => (await hub.completed(instance)) === "input 2");
  await hub.assertHistory(instance, BEGIN, "ExecutionCompleted#1 COMPLETED");
  const [, begun] = await hub.client.getOrchestrationHistory(instance);
  assert.equal(begun.version, "1.0.0");
});

it("an id in use, and one that is too long: behaviour-46", async () => {
  await hub.work({ orchestrators: { waits, simple } });
  const instance = await hub.start("waits", undefined, { instanceId: "same" });
  await hub.untilCustom(instance, "waiting");
  assert.equal(await codeOf(hub.start("waits", undefined, { instanceId: "same" })), "ALREADY_EXISTS");
  await hub.client.raiseOrchestrationEvent(instance, "go", "first");
  assert.equal(await hub.completed(instance), "first");
  assert.equal(await hub.start("simple", "second", { instanceId: "same" }), "same");
  await eventually("it was replaced", async () => (await hub.completed("same")) === "second");
  assert.equal(await codeOf(hub.start("simple", "x", { instanceId: "i".repeat(101) })), "INVALID_ARGUMENT");
});

it("events to nobody and to one that has ended: behaviour-49", async () => {
  await hub.work({ orchestrators: { simple } });
  const instance = await hub.start("simple", 1);
  await hub.completed(instance);
  await hub.client.raiseOrchestrationEvent(instance, "late");
  await hub.client.terminateOrchestration(instance, "late");
  assert.equal(await hub.completed(instance), 1);
  assert.equal(await codeOf(hub.client.raiseOrchestrationEvent("nobody", "x")), "NOT_FOUND");
});

it("versions: a mismatch fails, or is left to another worker: behaviour-34", async () => {
  const versioned = async (ctx) => ctx.version;
  const versioning = {
    version: "2.0.0",
    matchStrategy: VersionMatchStrategy.Strict,
    failureStrategy: VersionFailureStrategy.Reject,
  };
  await hub.work({ orchestrators: { versioned }, versioning });
  const instance = await hub.start("versioned", undefined, { version: "1.0.0" });
  assert.equal(await hub.completed(await hub.start("versioned", undefined, { version: "2.0.0" })), "2.0.0");
  assert.equal(await hub.status(instance), "PENDING");
  await hub.work({ orchestrators: { versioned }, versioning: { ...versioning, version: "1.0.0" } });
  assert.equal(await hub.completed(instance), "1.0.0");
  await hub.assertHistory(instance, BEGIN, "ExecutionCompleted#1 COMPLETED");
});

it("filters: only what a worker knows is sent to it: behaviour-56", async () => {
  const adds = async function* (ctx, number) {
    return yield ctx.callActivity("plusOne", number);
  };
  const versioning = { version: "1.0.0", matchStrategy: VersionMatchStrategy.Strict };
  await hub.work({ orchestrators: { adds }, versioning, workItemFilters: "auto" });
  // The activity has no version of its own: its name is enough for a filter with versions.
  await hub.work({ activities: { plusOne: (_, number) => number + 1 }, versioning, workItemFilters: "auto" });
  const without = await hub.start("adds", 1);
  const unknown = await hub.start("unknown");
  // One after the other, all started after those two: they would have had their turn.
  let instance;
  for (let attempt = 0; attempt < 5; attempt++) {
    instance = await hub.start("adds", 1, { version: "1.0.0" });
    assert.equal(await hub.completed(instance), 2);
  }
  assert.equal(await hub.status(without), "PENDING");
  assert.equal(await hub.status(unknown), "PENDING");
  await hub.assertHistory(
    instance,
    BEGIN,
    "TaskScheduled#1 plusOne",
    [STARTED, "TaskCompleted<1", "ExecutionCompleted#2 COMPLETED"],
  );
});

it("queries, pages and lists of ids: behaviour-50 behaviour-51", async () => {
  await hub.work({ orchestrators: { simple, fails, waits } });
  const made = [];
  for (let number = 0; number < 7; number++) {
    made.push(await hub.start("simple", number, { instanceId: `q-${number}` }));
  }
  for (const instance of made) await hub.completed(instance);
  const bad = await hub.start("fails", undefined, { instanceId: "r-bad" });
  await hub.result(bad);
  const open = await hub.start("waits", undefined, { instanceId: "r-open" });
  await hub.untilCustom(open, "waiting");
  const query = async (filter) => {
    const found = [];
    for await (const state of hub.client.getAllInstances(filter)) found.push(state.instanceId);
    return found;
  };
  assert.deepEqual(await query(), [...made, bad, open]);
  assert.deepEqual(await query({ pageSize: 2 }), [...made, bad, open]);
  assert.deepEqual(await query({ instanceIdPrefix: "q-" }), made);
  assert.deepEqual(await query({ statuses: [OrchestrationStatus.FAILED, OrchestrationStatus.RUNNING] }), [bad, open]);
  assert.deepEqual(await query({ createdFrom: new Date(Date.now() + 60_000) }), []);
  const sizes = [];
  for await (const page of hub.client.getAllInstances({ pageSize: 4 }).asPages()) sizes.push(page.values.length);
  assert.deepEqual(sizes.filter((size) => size > 0), [4, 4, 1]);
  const ids = [];
  let page;
  do {
    page = await hub.client.listInstanceIds({ pageSize: 3, lastInstanceKey: page?.continuationToken });
    ids.push(...page.values);
  } while (page.hasMoreResults);
  assert.deepEqual(ids.sort(), [...made, bad].sort());
  const failed = await hub.client.listInstanceIds({ runtimeStatus: [OrchestrationStatus.FAILED] });
  assert.deepEqual(failed.values, [bad]);
});

it("purge by id, with children, and by criteria: behaviour-52", async () => {
  const parent = async function* (ctx) {
    return yield ctx.callSubOrchestrator("simple", "child");
  };
  await hub.work({ orchestrators: { parent, simple, waits } });
  const open = await hub.start("waits");
  await hub.untilCustom(open, "waiting");
  assert.equal((await hub.client.purgeOrchestration(open)).deletedInstanceCount, 0);
  assert.equal((await hub.client.purgeOrchestration("nobody")).deletedInstanceCount, 0);
  const family = await hub.start("parent");
  await hub.completed(family);
  const purged = await hub.client.purgeOrchestration(family, { recursive: true });
  assert.equal(purged.deletedInstanceCount, 2);
  assert.equal(await hub.client.getOrchestrationState(family), undefined);
  for (let number = 0; number < 3; number++) await hub.completed(await hub.start("simple", number));
  const criteria = new PurgeInstanceCriteria();
  criteria.setCreatedTimeFrom(new Date(Date.now() - 600_000));
  criteria.setRuntimeStatusList([OrchestrationStatus.COMPLETED]);
  assert.equal((await hub.client.purgeOrchestration(criteria)).deletedInstanceCount, 3);
  assert.equal(await hub.status(open), "RUNNING");
});
