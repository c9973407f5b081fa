'use strict'

const Redlock = require('redlock4')

module.exports = (host, port) => {
  const client = require('./connect')(host, port, 5)
  const patient = new Redlock([client], { retryCount: 50, retryDelay: 200 })
  const once = new Redlock([client], { retryCount: 0 })
  let lock
  let failure // what the server said, if that was an error: the error of redlock does not tell it from a refusal
  for (const redlock of [patient, once]) redlock.on('clientError', err => { failure = err })

  const answer = async promise => {
    failure = undefined
    try {
      const result = await promise()
      if (result) lock = result
      return 'ok'
    } catch (err) {
      if (err.name !== 'LockError' || failure) throw failure || err
      return 'refused'
    }
  }
  return {
    client,
    packages: ['redlock4', 'ioredis5'],
    acquire: (name, ttl, wait) => answer(() => (wait ? patient : once).lock(name, ttl)),
    extend: ttl => answer(() => once.extend(lock, ttl)),
    release: () => answer(() => once.unlock(lock))
  }
}
