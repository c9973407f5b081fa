// Drives one lock library of Node.js by lines on standard input, see ../README.md.
'use strict'

const readline = require('node:readline')

const libraries = {
  redlock4: './redlock4', redlock5: './redlock5', 'redis-semaphore': './redis-semaphore', semaphore: './semaphore',
  medusa: './medusa', 'medusa-execute': './medusa-execute', ioredis5: './byhand', ioredis6: './byhand', 'node-redis': './byhand'
}

async function main () {
  const [host, port, library] = process.argv.slice(2)
  if (!libraries[library]) throw new Error('no such library: ' + library)
  const lock = await require(libraries[library])(host, Number(port), library)
  console.log('ready ' + lock.packages.map(version).join(', '))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split(' ')
    let answer
    try {
      answer = await step(lock, command, words)
    } catch (err) {
      answer = 'error ' + oneLine(err)
    }
    console.log(answer)
  }
  process.exit(0) // the clients would keep the process
}

function step (lock, command, words) {
  switch (command) {
    case 'acquire': return lock.acquire(words[0], Number(words[1]), true)
    case 'try': return lock.acquire(words[0], Number(words[1]), false)
    case 'extend': return lock.extend ? lock.extend(Number(words[0])) : 'unsupported'
    case 'inspect': return lock.inspect ? lock.inspect() : 'unsupported'
    case 'release': return lock.release()
    case 'ping': return lock.client.ping().then(() => 'ok')
  }
  throw new Error('no such command: ' + command)
}

function oneLine (err) { return String(err.message || err).replace(/\s+/g, ' ') }

// The directory of a package bears the name of the dependency; its package.json has the version.
function version (directory) {
  const { name, version } = JSON.parse(require('node:fs').readFileSync(`${__dirname}/node_modules/${directory}/package.json`))
  return `${directory === 'redis' ? 'node-redis' : name} ${version}`
}

main().catch(err => {
  console.log('error ' + oneLine(err))
  process.exit(1)
})
