'use strict'

// node shared.js host port callers connections: the callers hand one lock on, over so many connections, see ../README.md.

const Redis = require('ioredis6')
const crypto = require('node:crypto')

async function main (host, port, callers, connections) {
  const clients = Array.from({ length: connections }, () => new Redis({ host, port }))
  await Promise.all(clients.map(client => client.call('PING')))
  let here = 0; let together = 0; let done = 0
  const began = performance.now()
  await Promise.all(Array.from({ length: callers }, async (_, i) => {
    const client = clients[i % connections]
    const lock = await client.call('LOCK', 'shared', '30s', 'TOKEN', crypto.randomUUID(), 'WAIT', '1m')
    if (!lock) return
    together = Math.max(together, ++here)
    await new Promise(resolve => setImmediate(resolve))
    here--
    const released = await client.call('UNLOCK', 'shared', lock[0])
    done += released
  }))
  console.log(`${done} callers, ${together} at once`)
  console.log(Math.round(performance.now() - began))
  process.exit(0)
}

main(process.argv[2], +process.argv[3], +process.argv[4], +process.argv[5])
