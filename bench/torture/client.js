// A client program of the torture, see client.go: ioredis, and redlock for locks of a library.
'use strict'

const readline = require('node:readline')
const packages = require('node:module').createRequire(process.argv[2] + '/')
const { default: Redlock, ExecutionError, ResourceLockedError } = packages('redlock5')
const Redis = packages('ioredis5')

const addresses = process.argv[3].split(',')
const timeout = Number(process.argv[4])
const sessions = new Map()
const now = () => Number(process.hrtime.bigint())

function connect (to) {
  const [host, port] = addresses[to].split(':')
  // Nothing is sent twice: the torture decides about that.
  const conn = new Redis({
    host, port: Number(port), connectTimeout: timeout, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, retryStrategy: () => null, enableReadyCheck: false
  })
  conn.on('error', () => {})
  const redlock = new Redlock([conn], { retryCount: 0 })
  redlock.on('error', () => {})
  return { conn, redlock }
}

function close (session, to) {
  const c = session.connections.get(to)
  session.connections.delete(to)
  if (c) c.conn.disconnect()
}

async function answer (promise) {
  try {
    return await promise
  } catch (err) {
    if (!(err instanceof ExecutionError)) throw err
    for (const attempt of await Promise.all(err.attempts)) {
      for (const vote of attempt.votesAgainst.values()) {
        if (!(vote instanceof ResourceLockedError)) throw vote
      }
    }
    return null // a refusal
  }
}

async function run (session, { op, to, args }) {
  if (op === 'close') { close(session, to); return 1 }
  if (!session.connections.has(to)) session.connections.set(to, connect(to))
  const { conn, redlock } = session.connections.get(to)
  const name = args[0]
  if (op === 'do') return conn.call(...args)
  if (op === 'obtain') {
    const lock = await answer(redlock.acquire([name], Number(args[1])))
    if (lock) session.locks.set(name, lock)
    return lock && [lock.value, Number(args[1])]
  }
  if (op === 'extend') {
    const lock = await answer(session.locks.get(name).extend(Number(args[1])))
    if (lock) session.locks.set(name, lock)
    return lock ? Number(args[1]) : 0
  }
  if (op === 'release') return await answer(session.locks.get(name).release()) ? 1 : 0
  throw new Error(op)
}

async function perform (call) {
  if (!sessions.has(call.session)) sessions.set(call.session, { connections: new Map(), locks: new Map() })
  const session = sessions.get(call.session)
  const result = { id: call.id, start: now() }
  let timer
  try {
    const late = new Promise((resolve, reject) => { timer = setTimeout(() => reject(new Error('timeout')), timeout) })
    result.reply = await Promise.race([run(session, call), late])
  } catch (err) {
    result.error = String(err.message || err)
    // A reply error leaves the connection as it is; after anything else nothing may come of what is under way.
    if (err.name !== 'ReplyError') close(session, call.to)
  }
  clearTimeout(timer)
  result.end = now()
  console.log(JSON.stringify(result))
}

console.log(JSON.stringify({ ready: `ioredis ${version('ioredis5')}, redlock ${version('redlock5')}, Node ${process.versions.node}` }))
readline.createInterface({ input: process.stdin }).on('line', line => perform(JSON.parse(line))).on('close', () => process.exit(0))

function version (directory) {
  return JSON.parse(require('node:fs').readFileSync(`${process.argv[2]}/node_modules/${directory}/package.json`)).version
}
