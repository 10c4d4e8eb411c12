// The JavaScript half of two workers on one hub: `node peer.js HOST HUB`. It knows its own functions and no others.

import grpc from "@grpc/grpc-js";
import { NoOpLogger, TaskHubGrpcWorker } from "@microsoft/durabletask-js";

const [hostAddress, hub] = process.argv.slice(2);
const metadataGenerator = async () => {
  const metadata = new grpc.Metadata();
  metadata.set("taskhub", hub);
  return metadata;
};
const worker = new TaskHubGrpcWorker({ hostAddress, metadataGenerator, logger: new NoOpLogger(), workItemFilters: "auto" });
worker.addNamedActivity("shout", (_, text) => `${text.toUpperCase()}!`);
worker.addNamedOrchestrator("js_child", async function* (ctx, text) {
  const measured = yield ctx.callActivity("measure", text);
  return { by: "JavaScript", parent: ctx.parent.name, measured };
});
worker.addNamedOrchestrator("js_parent", async function* (ctx, text) {
  const measured = yield ctx.callActivity("measure", text);
  const child = yield ctx.callSubOrchestrator("py_child", text);
  return { measured, child };
});
worker.addNamedOrchestrator("js_fails", async () => {
  throw new RangeError("out of JavaScript");
});
await worker.start();
console.log("ready");
process.stdin.resume();
process.stdin.on("end", async () => {
  await worker.stop();
  process.exit(0);
});
