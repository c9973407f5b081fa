// Loads node-redlock as its README shows it, as a load generator of the bench: ../load.go says what parent and child say to each
// other. Its argument is the directory that has the packages.
'use strict'

const readline = require('node:readline')
const packages = require('node:module').createRequire(process.argv[2] + '/')
const { default: Redlock } = packages('redlock5')
const Redis = packages('ioredis5')

const ttl = 5000 // of the README's example

async function main () {
  const words = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const next = async () => (await words.next()).value ?? process.exit(1) // the end of the parent is ours
  const spec = JSON.parse(await next())
  const servers = spec.masters.map(addr => {
    const [host, port] = addr.split(':')
    return new Redis({ host, port: Number(port) }).on('error', () => {})
  })
  const redlock = new Redlock(servers, { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200, automaticExtensionThreshold: 500 })
  redlock.on('error', () => {})

  await drive(redlock, spec.callers, spec.prefix + 'warm:', spec.warmup_ns / 1e6)
  console.log('ready')
  await next()
  const cpu = process.cpuUsage()
  const run = await drive(redlock, spec.callers, spec.prefix, spec.duration_ns / 1e6)
  const { user, system } = process.cpuUsage(cpu)
  console.log('done')
  console.log(JSON.stringify({
    pairs: run.locks.length,
    pairs_per_sec: run.inTime / spec.duration_ns * 1e9,
    lock_us: percentiles(run.locks),
    pair_us: percentiles(run.pairs),
    cpu_ns: (user + system) * 1000,
    failures: run.failures,
    versions: { 'node-redlock': version('redlock5'), ioredis: version('ioredis5'), node: process.versions.node }
  }))
  process.exit(0) // the clients would keep the process
}

// drive lets all callers acquire and release, a new resource for every pair, until the time is over; pairs that run then are finished.
async function drive (redlock, callers, prefix, ms) {
  const run = { inTime: 0, locks: [], pairs: [], failures: { count: 0, texts: [] } }
  const start = performance.now()
  const caller = async (_, i) => {
    for (let n = 0; ; n++) {
      const began = performance.now()
      if (began - start >= ms) return
      try {
        const lock = await redlock.acquire([`${prefix}${i}:${n}`], ttl)
        const locked = performance.now()
        await lock.release()
        const released = performance.now()
        run.locks.push((locked - began) * 1e3)
        run.pairs.push((released - began) * 1e3)
        run.inTime += Math.min(1, (start + ms - began) / (released - began)) // what outlasts the time counts in part
      } catch (err) {
        fail(run.failures, err)
        await new Promise(resolve => setTimeout(resolve, 1))
      }
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return run
}

function fail (failures, err) {
  failures.count++
  const text = String(err.message || err).replace(/\s+/g, ' ')
  if (failures.texts.length < 3 && !failures.texts.includes(text)) failures.texts.push(text)
}

function percentiles (us) {
  if (us.length === 0) return {}
  us.sort((a, b) => a - b)
  const at = p => Math.round(us[Math.min(us.length, Math.ceil(us.length * p)) - 1])
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), mean: us.reduce((sum, v) => sum + v, 0) / us.length, max: at(1) }
}

function version (directory) {
  return JSON.parse(require('node:fs').readFileSync(`${process.argv[2]}/node_modules/${directory}/package.json`)).version.replace(/^v/, '')
}

main().catch(err => {
  console.error(err.message || err)
  process.exit(1)
})
