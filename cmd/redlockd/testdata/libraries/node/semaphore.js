'use strict'

const { Semaphore } = require('redis-semaphore')

// A semaphore keeps its holders in a sorted set.
module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  let semaphore
  return {
    client,
    packages: ['redis-semaphore', 'ioredis5'],
    async acquire (name, ttl) {
      semaphore = new Semaphore(client, name, 1, { lockTimeout: ttl, onLockLost: () => {}, acquireAttemptsLimit: 1 })
      return await semaphore.tryAcquire() ? 'ok' : 'refused'
    },
    async release () {
      await semaphore.release()
      return 'silent'
    }
  }
}
