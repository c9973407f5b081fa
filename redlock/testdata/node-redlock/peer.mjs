// One client of node-redlock for the comparison in scenario_peers_test.go: it takes the addresses of the masters as arguments, reads
// "resource ttl" lines, tries each lock once, and answers with the validity that is left in ms, or with "no".
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import lib from "redlock";

const Redlock = lib.default ?? lib;
const masters = process.argv.slice(2).map((addr) => {
  const [host, port] = addr.split(":");
  const master = new Redis({ host, port: Number(port), connectTimeout: 400, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  master.on("error", () => {});
  return master;
});
const redlock = new Redlock(masters, { retryCount: 0 });
redlock.on("error", () => {});

await Promise.all(masters.map((m) => new Promise((ready) => m.once("ready", ready))));
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [resource, ttl] = line.split(" ");
  try {
    const lock = await redlock.acquire([resource], Number(ttl));
    console.log(String(lock.expiration - Date.now()));
  } catch {
    console.log("no");
  }
}
process.exit(0);
