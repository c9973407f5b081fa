// One client of node-redlock for the comparison in scenarios_test.go: its arguments are the directory that has the packages and the
// addresses of the masters. It reads "resource ttl" lines, tries each lock once, and answers with the validity that is left in ms, or
// with "no".
'use strict'

const [directory, ...addresses] = process.argv.slice(2)
const packages = require('node:module').createRequire(require('node:path').resolve(directory) + '/')
const { default: Redlock } = packages('redlock5')
const Redis = packages('ioredis5')

async function main () {
  const masters = addresses.map(addr => {
    const [host, port] = addr.split(':')
    return new Redis({ host, port: Number(port), connectTimeout: 400, maxRetriesPerRequest: 0, enableOfflineQueue: false }).on('error', () => {})
  })
  const redlock = new Redlock(masters, { retryCount: 0 }).on('error', () => {})
  await Promise.all(masters.map(m => new Promise(resolve => m.once('ready', resolve))))
  console.log('ready')
  for await (const line of require('node:readline').createInterface({ input: process.stdin })) {
    const [resource, ttl] = line.split(' ')
    try {
      const lock = await redlock.acquire([resource], Number(ttl))
      console.log(String(lock.expiration - Date.now()))
    } catch {
      console.log('no')
    }
  }
  process.exit(0)
}

main()
