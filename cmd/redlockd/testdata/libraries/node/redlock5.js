'use strict'

const { default: Redlock, ExecutionError, ResourceLockedError } = require('redlock5')

module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  const redlock = new Redlock([client], { retryCount: 0 })
  redlock.on('error', () => {})
  let lock

  // An ExecutionError holds what each attempt met; only a ResourceLockedError is a refusal.
  const answer = async promise => {
    try {
      lock = await promise || lock
      return 'ok'
    } catch (err) {
      if (!(err instanceof ExecutionError)) throw err
      for (const attempt of await Promise.all(err.attempts)) {
        for (const vote of attempt.votesAgainst.values()) {
          if (!(vote instanceof ResourceLockedError)) throw vote
        }
      }
      return 'refused'
    }
  }
  return {
    client,
    packages: ['redlock5', 'ioredis5'],
    acquire: (name, ttl, wait) => answer(redlock.acquire([name], ttl, wait ? { retryCount: 50, retryDelay: 200 } : {})),
    extend: ttl => answer(lock.extend(ttl)),
    release: () => answer(lock.release().then(() => {}))
  }
}
