'use strict'

const { Mutex } = require('redis-semaphore')

// The mutex renews itself until it is released, and calls onLockLost when it finds that it is lost.
module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  let mutex
  return {
    client,
    packages: ['redis-semaphore', 'ioredis5'],
    async acquire (name, ttl, wait) {
      const next = new Mutex(client, name, {
        lockTimeout: ttl, onLockLost: () => {}, acquireTimeout: 10000, acquireAttemptsLimit: wait ? undefined : 1
      })
      if (!await next.tryAcquire()) return 'refused'
      mutex = next
      return 'ok'
    },
    inspect: () => mutex.isAcquired ? 'held' : 'lost',
    async release () {
      await mutex.release()
      return 'silent'
    }
  }
}
