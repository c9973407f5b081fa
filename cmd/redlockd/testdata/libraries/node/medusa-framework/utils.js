'use strict'

exports.promiseAll = promises => Promise.all(promises)

exports.MedusaError = class extends Error {
  static Types = { CONFLICT: 'conflict' }

  constructor (type, message) {
    super(message)
    this.type = type
  }
}
