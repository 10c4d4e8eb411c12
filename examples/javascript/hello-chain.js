// A chain: three greetings, one after the other, each of them durable.
//
//     npm install
//     node hello-chain.js

import { NoOpLogger, TaskHubGrpcClient, TaskHubGrpcWorker } from "@microsoft/durabletask-js";

const options = { hostAddress: process.env.DAUER_HOST ?? "127.0.0.1:4001", logger: new NoOpLogger() };
const worker = new TaskHubGrpcWorker(options);
const client = new TaskHubGrpcClient(options);

async function sayHello(_, city) {
  return `Hello ${city}!`;
}

async function* helloCities(context, cities) {
  const greetings = [];
  for (const city of cities) greetings.push(yield context.callActivity(sayHello, city));
  return greetings;
}

worker.addOrchestrator(helloCities);
worker.addActivity(sayHello);
await worker.start();

const instance = await client.scheduleNewOrchestration(helloCities, ["Tokyo", "Seattle", "London"]);
const state = await client.waitForOrchestrationCompletion(instance, true, 30);
state.raiseIfFailed();
console.log(JSON.parse(state.serializedOutput).join("\n"));

await worker.stop();
await client.stop();
