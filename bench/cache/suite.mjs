// Puts the questions of the public suite of HTTP cache tests (npm http-cache-tests, or a clone of its repository, which is newer) and those of
// questions.mjs to a cache.
//
// In: the folder of the suite, the cache's URL. Out: JSON, a row for each question: rfc, section, kind (`required`, `optimal` or `check`), id, text,
// answer: `yes`, `no`, `setup` (the question could not be put), `depends` (another answer is missing for it), and what was seen.

import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import questions from './questions.mjs'
import { put } from './put.mjs'

const [folder, base] = process.argv.slice(2)
const load = (file) => import(pathToFileURL(`${folder}/${file}`))
const isClone = existsSync(`${folder}/test-engine`)
const engine = isClone ? 'test-engine/' : ''
// It sees interim responses by undici, which must be what fetches from the beginning.
if (isClone) createRequire(`${folder}/`)('undici').install()

// The suite names places by the anchors of RFC 9111, and by URLs of others.
const SECTIONS = {
  'delta-seconds': '1.2.2', 'caching.overview': '2', 'calculating.freshness.lifetime': '4.2.1', 'validation.sent': '4.3.1',
  'validation.received': '4.3.2', 'field.date': '4.2.3', 'response.cacheability': '3', 'storing.fields': '3.1', 'combining.responses': '3.4', 'caching.authenticated.responses': '3.5',
  'constructing.responses.from.caches': '4', 'caching.negotiated.responses': '4.1', 'expiration.model': '4.2', 'heuristic.freshness': '4.2.2',
  'serving.stale.responses': '4.2.4', 'validation.model': '4.3', 'freshening.responses': '4.3.4', 'head.effects': '4.3.5', invalidation: '4.4',
  'field.age': '5.1', 'field.cache-control': '5.2', 'cache-request-directive': '5.2.1', 'cache-request-directive.max-age': '5.2.1.1',
  'cache-request-directive.max-stale': '5.2.1.2', 'cache-request-directive.min-fresh': '5.2.1.3', 'cache-request-directive.no-cache': '5.2.1.4',
  'cache-request-directive.no-store': '5.2.1.5', 'cache-request-directive.only-if-cached': '5.2.1.7', 'cache-response-directive': '5.2.2',
  'cache-response-directive.max-age': '5.2.2.1', 'cache-response-directive.must-revalidate': '5.2.2.2',
  'cache-response-directive.must-understand': '5.2.2.3', 'cache-response-directive.no-cache': '5.2.2.4',
  'cache-response-directive.no-store': '5.2.2.5', 'cache-response-directive.private': '5.2.2.7',
  'cache-response-directive.proxy-revalidate': '5.2.2.8', 'cache-response-directive.public': '5.2.2.9',
  'cache-response-directive.s-maxage': '5.2.2.10', 'cache.control.extensions': '5.2.3', 'field.expires': '5.3', 'field.pragma': '5.4'
}
const OF_OTHERS = /\/rfc(\d+)\.html(?:#section-([\d.]+))?$/
const ANSWERS = { '✅': 'yes', Y: 'yes', '⛔️': 'no', '⚠️': 'no', N: 'no', '⚪️': 'depends' }

async function run (suites) {
  const { runTests, getResults } = await load(`${engine}client/runner.mjs`)
  if (isClone) {
    await runTests(suites, false, base)
  } else {
    const { default: fetch } = await load('../node-fetch/lib/index.mjs')
    await runTests(suites, fetch, false, base)
  }
  return getResults()
}

async function ofTheSuite () {
  const { determineTestResult } = await load(`${engine}lib/${isClone ? 'results' : 'display'}.mjs`)
  const { default: suites } = await load('tests/index.mjs')
  const results = await run(suites)
  const row = (suite, test) => {
    const anchor = (test.spec_anchors ?? suite.spec_anchors ?? [])[0]
    const [, other, place] = OF_OTHERS.exec(anchor) ?? []
    const section = other ? place ?? '2' : SECTIONS[anchor] ?? (anchor ? `unknown: ${anchor}` : '-')
    const answer = ANSWERS[determineTestResult(suites, test.id, results)[2]] ?? 'setup'
    const seen = results[test.id] === true ? '' : results[test.id]?.[1] ?? 'not run'
    return { suite: true, rfc: other ?? '9111', section, kind: test.kind ?? 'required', id: test.id, text: test.name, answer, seen }
  }
  return suites.flatMap(suite => suite.tests.filter(test => !test.browser_only).map(test => row(suite, test)))
}

const own = questions.map(async question => {
  const seen = await put(base, question)
  const { rfc, section, kind, id, text } = question
  return { rfc, section, kind, id, text, answer: seen === '' ? 'yes' : 'no', seen }
})
console.log(JSON.stringify([...await ofTheSuite(), ...await Promise.all(own)]))
