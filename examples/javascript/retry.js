// A retry: the first two calls of a flaky service fail, the third succeeds, and the waits in between are durable timers.
//
//     npm install
//     node retry.js

import { NoOpLogger, RetryPolicy, TaskHubGrpcClient, TaskHubGrpcWorker } from "@microsoft/durabletask-js";

const options = { hostAddress: process.env.DAUER_HOST ?? "127.0.0.1:4001", logger: new NoOpLogger() };
const worker = new TaskHubGrpcWorker(options);
const client = new TaskHubGrpcClient(options);
const retry = new RetryPolicy({ firstRetryIntervalInMilliseconds: 200, maxNumberOfAttempts: 5, backoffCoefficient: 2 });

let attempts = 0;

async function fetchWeather(_, city) {
  attempts += 1;
  if (attempts < 3) throw new Error(`attempt ${attempts}: no connection to ${city}`);
  return `${city}: sunny, after ${attempts} attempts`;
}

async function* weather(context, city) {
  return yield context.callActivity(fetchWeather, city, { retry });
}

worker.addOrchestrator(weather);
worker.addActivity(fetchWeather);
await worker.start();

const instance = await client.scheduleNewOrchestration(weather, "Lisbon");
const state = await client.waitForOrchestrationCompletion(instance, true, 30);
state.raiseIfFailed();
console.log(JSON.parse(state.serializedOutput));

await worker.stop();
await client.stop();
