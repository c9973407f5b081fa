'use strict'

const { RedisLockingProvider } = require('@medusajs/locking-redis/dist/services/redis-lock')

// A job that runs under a lock, which the provider renews while it runs.
module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  const provider = new RedisLockingProvider({ redisClient: client }, { maximumRetryInterval: 50 })
  let job

  return {
    client,
    packages: ['@medusajs/locking-redis', 'ioredis5'],
    async acquire (name, ttl, wait) {
      if (!wait && await client.exists('medusa_lock:' + name)) return 'refused' // it waits for a second at least
      const next = {}
      const ended = new Promise(resolve => { next.end = resolve })
      const started = new Promise((resolve, reject) => {
        next.done = provider.execute(name, async signal => {
          next.signal = signal
          resolve('ok')
          await ended
        }, { timeout: 10, expire: ttl / 1000 })
        next.done.catch(reject)
      })
      try {
        await started
      } catch (err) {
        if (err.type === 'conflict') return 'refused'
        throw err
      }
      job = next
      return 'ok'
    },
    inspect: () => job.signal.aborted ? 'lost' : 'held',
    async release () {
      job.end()
      try {
        await job.done
        return 'silent'
      } catch (err) {
        if (err.type === 'conflict') return 'silent'
        throw err
      }
    }
  }
}
