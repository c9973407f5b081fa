'use strict'

// An error event without a listener would end the process; the clients connect again by themselves.
module.exports = function connect (host, port, version) {
  const Redis = require('ioredis' + version)
  return new Redis({ host, port }).on('error', () => {})
}
