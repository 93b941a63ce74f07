// Puts one question of questions.mjs: its requests in turn, with a server of the public suite behind the cache, which responds as it was told.
//
// In: the cache's URL, a question. Out: what was seen instead of what was expected, or an empty text.

import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'

// Long enough for a lifetime of one second to end, and for what is done in the background.
const PAUSE_MS = 3000

export async function put (base, question) {
  const uuid = randomUUID()
  const told = question.requests.map(request => ({
    id: question.id, response_headers: request.response, response_status: request.status, disconnect: request.breaks, response_body: request.content
  }))
  const taken = await fetch(`${base}/config/${uuid}`, {
    method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(told)
  })
  if (taken.status !== 201) return `the origin could not be told: status ${taken.status}`
  for (const [index, request] of question.requests.entries()) {
    const number = index + 1
    // A cache that closes without a response has not answered either.
    const wrong = await one(`${base}/test/${uuid}`, request, number, question.id).catch(error => `${error.cause ?? error}`)
    if (wrong) return `response ${number}: ${wrong}`
    if (request.pause) await wait(PAUSE_MS)
  }
  return ''
}

async function one (url, request, number, id) {
  const headers = { ...request.request, 'test-id': id, 'req-num': String(number) }
  const response = await fetch(url, { method: request.method, headers, redirect: 'manual' })
  await response.text()
  const from = Number(response.headers.get('client-request-count')) || null
  const expected = request.expected ?? {}
  if ('from' in expected && from !== expected.from) return `it is the one to request ${from}, expected ${expected.from}`
  if ('status' in expected && response.status !== expected.status) return `status ${response.status}, expected ${expected.status}`
  for (const [name, pattern] of Object.entries(expected.fields ?? {})) {
    const value = response.headers.get(name)
    if (!pattern.test(value ?? '')) return `${name}: ${value}, expected ${pattern}`
  }
  return ''
}
