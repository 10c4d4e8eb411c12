// A JavaScript worker with default settings for `python/reconnect.py`: `reconnect.js HOST HUB`. Prints a line per connection.

import grpc from "@grpc/grpc-js";
import { TaskHubGrpcWorker } from "@microsoft/durabletask-js";

const [host, hub] = process.argv.slice(2);
const ended = new Promise((resolve) => process.stdin.resume().on("end", resolve));
const metadataGenerator = async () => {
  const metadata = new grpc.Metadata();
  metadata.set("taskhub", hub);
  return metadata;
};
const hear = (message) => {
  if (/^Successfully connected/.test(message)) console.log("connected");
};
const logger = { error: hear, warn: hear, info: hear, debug: hear };
const worker = new TaskHubGrpcWorker({ hostAddress: host, metadataGenerator, logger });
worker.addNamedOrchestrator("one", async function* (ctx) {
  yield ctx.callActivity("hold");
});
worker.addNamedActivity("hold", async () => {
  console.log("holds");
  await ended;
});
await worker.start();
await ended;
process.exit(0);
