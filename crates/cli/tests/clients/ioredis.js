// What an application does that popped its keys from Redis, with ioredis.
const assert = require("node:assert");
const Redis = require("ioredis");

async function main() {
  const port = Number(process.argv[2]);
  const redis = new Redis({ port, connectionName: "shop", maxRetriesPerRequest: 1 });
  await new Promise((ready, failed) => redis.once("ready", ready).once("error", failed));
  assert.equal((await redis.lpop("links")).length, 7);
  assert.equal(new Set(await redis.lpop("links", 100)).size, 100);
  assert.equal((await redis.spop("links", 5)).length, 5);
  const first = await redis.incr("tickets");
  assert.equal(await redis.incr("tickets"), first + 1);
  assert.equal(await redis.incrby("tickets", 10), first + 11);
  assert.ok((await redis.llen("links")) > 1e9);
  assert.equal(await redis.type("tickets"), "string");
  assert.equal(await redis.exists("links", "nothing"), 1);
  assert.equal(await redis.client("GETNAME"), "shop");
  assert.match(await redis.info(), /keymill_version:/);
  const popped = await redis.pipeline(Array.from({ length: 500 }, () => ["lpop", "links"])).exec();
  assert.equal(new Set(popped.map(([error, key]) => (assert.equal(error, null), key))).size, 500);
  await assert.rejects(redis.lpop("nothing"), /NOTFOUND/);
  await assert.rejects(redis.incr("links"), /WRONGTYPE/);
  await assert.rejects(redis.flushall(), /unknown command/);
  await redis.quit();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
