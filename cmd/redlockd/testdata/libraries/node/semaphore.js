'use strict'

const { Semaphore } = require('redis-semaphore')

// A semaphore for one holder. It keeps its holders in a sorted set, and renews itself like the mutex.
module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  let semaphore
  return {
    client,
    packages: ['redis-semaphore', 'ioredis5'],
    async acquire (name, ttl, wait) {
      const next = new Semaphore(client, name, 1, {
        lockTimeout: ttl, onLockLost: () => {}, acquireTimeout: 10000, acquireAttemptsLimit: wait ? undefined : 1
      })
      if (!await next.tryAcquire()) return 'refused'
      semaphore = next
      return 'ok'
    },
    inspect: () => semaphore.isAcquired ? 'held' : 'lost',
    async release () {
      await semaphore.release()
      return 'silent'
    }
  }
}
