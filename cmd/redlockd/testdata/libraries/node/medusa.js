'use strict'

const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')
const { RedisLockingProvider } = require('@medusajs/locking-redis/dist/services/redis-lock')

// The provider of Medusa's locking module. The keys are medusa_lock:NAME.
module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  const provider = new RedisLockingProvider({ redisClient: client }, {})
  let lock

  // Who has the lock is granted it again, for another time.
  async function take (name, ownerId, ttl) {
    try {
      await provider.acquire(name, { ownerId, expire: ttl / 1000 })
      return true
    } catch (err) {
      if (err.type === 'conflict') return false
      throw err
    }
  }

  return {
    client,
    packages: ['@medusajs/locking-redis', 'ioredis5'],
    async acquire (name, ttl, wait) {
      const ownerId = randomUUID()
      for (const end = Date.now() + 10000; !await take(name, ownerId, ttl); await sleep(50)) {
        if (!wait || Date.now() > end) return 'refused'
      }
      lock = { name, ownerId }
      return 'ok'
    },
    async extend (ttl) {
      return await take(lock.name, lock.ownerId, ttl) ? 'ok' : 'refused'
    },
    async release () {
      return await provider.release(lock.name, { ownerId: lock.ownerId }) ? 'ok' : 'refused'
    }
  }
}
