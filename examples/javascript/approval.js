// A decision by a human, raced with a timer: who does not answer in time is passed over.
// Run it as it is and nobody answers; `node approval.js yes` answers.
//
//     npm install
//     node approval.js yes

import { NoOpLogger, TaskHubGrpcClient, TaskHubGrpcWorker, whenAny } from "@microsoft/durabletask-js";

const options = { hostAddress: process.env.DAUER_HOST ?? "127.0.0.1:4001", logger: new NoOpLogger() };
const worker = new TaskHubGrpcWorker(options);
const client = new TaskHubGrpcClient(options);
const PATIENCE_SECONDS = 2;

async function* purchase(context, order) {
  const answer = context.waitForExternalEvent("approval");
  const deadline = context.createTimer(PATIENCE_SECONDS);
  context.setCustomStatus("waiting for approval");
  const winner = yield whenAny([answer, deadline]);
  if (winner === deadline) return `${order}: nobody answered, passed on to the boss`;
  return `${order}: ${answer.getResult() === "yes" ? "ordered" : "refused"}`;
}

worker.addOrchestrator(purchase);
await worker.start();

const instance = await client.scheduleNewOrchestration(purchase, "one espresso machine");
for (const answer of process.argv.slice(2)) {
  // Durable, too: it would wait for a worker that is not there yet.
  await client.raiseOrchestrationEvent(instance, "approval", answer);
}
const state = await client.waitForOrchestrationCompletion(instance, true, 30);
state.raiseIfFailed();
console.log(JSON.parse(state.serializedOutput));

await worker.stop();
await client.stop();
