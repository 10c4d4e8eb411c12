// Fan-out and fan-in: the words of many pages are counted at once, and added up when the last page is done.
//
//     npm install
//     node fan-out.js

import { NoOpLogger, TaskHubGrpcClient, TaskHubGrpcWorker, whenAll } from "@microsoft/durabletask-js";

const options = { hostAddress: process.env.DAUER_HOST ?? "127.0.0.1:4001", logger: new NoOpLogger() };
const worker = new TaskHubGrpcWorker(options);
const client = new TaskHubGrpcClient(options);

async function countWords(_, page) {
  return page.split(/\s+/).length;
}

async function* countBook(context, pages) {
  const counts = yield whenAll(pages.map((page) => context.callActivity(countWords, page)));
  return { pages: counts.length, words: counts.reduce((sum, count) => sum + count, 0) };
}

worker.addOrchestrator(countBook);
worker.addActivity(countWords);
await worker.start();

const pages = ["a page", "another page of the book", "the last one"];
const instance = await client.scheduleNewOrchestration(countBook, pages);
const state = await client.waitForOrchestrationCompletion(instance, true, 30);
state.raiseIfFailed();
const book = JSON.parse(state.serializedOutput);
console.log(`${book.words} words on ${book.pages} pages`);

await worker.stop();
await client.stop();
