'use strict'

const crypto = require('node:crypto')

// The scripts that everybody writes.
const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'
const EXTEND = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'

// verbs is what a lock by hand needs of a client.
const verbs = {
  // ioredis runs a command that was defined as EVALSHA, and as EVAL after NOSCRIPT.
  ioredis (client) {
    client.defineCommand('releaseLock', { numberOfKeys: 1, lua: RELEASE })
    client.defineCommand('extendLock', { numberOfKeys: 1, lua: EXTEND })
    return {
      set: (name, token, ttl) => client.set(name, token, 'PX', ttl, 'NX'),
      extend: (name, token, ttl) => client.extendLock(name, token, ttl),
      release: (name, token) => client.releaseLock(name, token)
    }
  },
  // node-redis leaves that to its user, or takes scripts when the client is made.
  nodeRedis: client => ({
    set: (name, token, ttl) => client.set(name, token, { condition: 'NX', expiration: { type: 'PX', value: ttl } }),
    extend: (name, token, ttl) => client.extendLock(name, token, String(ttl)),
    release: (name, token) => client.releaseLock(name, token)
  })
}

async function connectNodeRedis (host, port) {
  const { createClient, defineScript } = require('redis')
  const script = text => defineScript({
    SCRIPT: text,
    NUMBER_OF_KEYS: 1,
    parseCommand (parser, key, ...args) {
      parser.pushKey(key)
      parser.push(...args)
    },
    transformReply: reply => reply
  })
  const client = createClient({ socket: { host, port }, scripts: { releaseLock: script(RELEASE), extendLock: script(EXTEND) } })
  client.on('error', () => {})
  await client.connect()
  return client
}

module.exports = async (host, port, library) => {
  const nodeRedis = library === 'node-redis'
  const client = nodeRedis ? await connectNodeRedis(host, port) : require('./connect')(host, port, library.slice(-1))
  const { set, extend, release } = verbs[nodeRedis ? 'nodeRedis' : 'ioredis'](client)
  let name, token
  return {
    client,
    packages: [nodeRedis ? 'redis' : library],
    async acquire (wanted, ttl, wait) {
      const secret = crypto.randomUUID()
      for (const end = Date.now() + 10000; ; await new Promise(resolve => setTimeout(resolve, 50))) {
        if (await set(wanted, secret, ttl) === 'OK') {
          name = wanted
          token = secret
          return 'ok'
        }
        if (!wait || Date.now() > end) return 'refused'
      }
    },
    extend: async ttl => await extend(name, token, ttl) === 1 ? 'ok' : 'refused',
    inspect: async () => await client.get(name) === token ? 'held' : 'lost',
    release: async () => await release(name, token) === 1 ? 'ok' : 'refused'
  }
}
