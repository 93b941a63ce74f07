// Questions that the public suite does not have: stale responses (RFC 5861), `Cache-Status` (RFC 9211), `CDN-Cache-Control` (RFC 9213).
//
// `response`: the fields that the origin sends; `from`: the number of the request whose response is expected. `required`: the RFC says must;
// `optimal`: a cache that does not is slower than it could be; `check`: the RFC leaves it open, or it is about a field that caches may leave out.

const stale = { kind: 'required', rfc: '5861' }
const targeted = { kind: 'required', rfc: '9213', section: '2.2' }
const status = { kind: 'check', rfc: '9211' }

const twice = (response, from, more = {}) => [{ response, pause: true }, { response: [], expected: { from }, ...more }]
const control = (value, other) => [['Cache-Control', value], ...(other ? [['CDN-Cache-Control', other, false]] : [])]
const says = (pattern, from) => ({ fields: { 'cache-status': pattern }, ...(from ? { from } : {}) })

export default [
  { ...stale, section: '3', kind: 'optimal', id: 'swr-stale', text: 'A stale response is served while `stale-while-revalidate` lasts',
    requests: twice(control('max-age=1, stale-while-revalidate=60'), 1) },
  { ...stale, section: '3', kind: 'optimal', id: 'swr-new', text: 'Meanwhile the origin is asked: the next client gets its new response',
    requests: [
      { response: control('max-age=1, stale-while-revalidate=60'), pause: true },
      { response: control('max-age=60'), expected: { from: 1 }, pause: true },
      { response: [], expected: { from: 2 } }] },
  { ...stale, section: '3', id: 'swr-over', text: 'No stale response is served after `stale-while-revalidate`',
    requests: twice(control('max-age=1, stale-while-revalidate=1'), 2) },
  { ...stale, section: '3', id: 'swr-revalidate', text: 'No stale response is served where `must-revalidate` forbids it',
    requests: twice(control('max-age=1, must-revalidate, stale-while-revalidate=60'), 2) },
  ...[500, 502, 503, 504].map(code => (
    { ...stale, section: '4', kind: 'optimal', id: `sie-${code}`, text: `A stale response is served for ${code} while \`stale-if-error\` lasts`,
      requests: twice(control('max-age=1, stale-if-error=60'), 1, { status: [code, 'Error'] }) })),
  { ...stale, section: '4', kind: 'optimal', id: 'sie-broken', text: 'A stale response is served if the origin closes without a response',
    requests: twice(control('max-age=1, stale-if-error=60'), 1, { breaks: true }) },
  { ...stale, section: '4', id: 'sie-404', text: 'A response with 404 is not replaced by a stale one: it is no error of the origin',
    requests: twice(control('max-age=1, stale-if-error=60'), 2, { status: [404, 'Not Found'] }) },
  { ...stale, section: '4', id: 'sie-over', text: 'No stale response is served after `stale-if-error`',
    requests: [
      { response: control('max-age=1, stale-if-error=1'), pause: true },
      { response: [], status: [503, 'Error'], expected: { status: 503 } }] },
  { ...stale, section: '4', id: 'sie-revalidate', text: 'No stale response is served where `must-revalidate` forbids it',
    requests: [
      { response: control('max-age=1, must-revalidate, stale-if-error=60'), pause: true },
      { response: [], status: [503, 'Error'], expected: { status: 503 } }] },

  { ...targeted, kind: 'optimal', id: 'cdn-only', text: '`CDN-Cache-Control: max-age` alone makes a response fresh',
    requests: twice([['CDN-Cache-Control', 'max-age=60', false]], 1) },
  { ...targeted, kind: 'optimal', id: 'cdn-longer', text: 'A longer `CDN-Cache-Control: max-age` counts before `Cache-Control`',
    requests: twice(control('max-age=1', 'max-age=60'), 1) },
  { ...targeted, id: 'cdn-shorter', text: 'A shorter `CDN-Cache-Control: max-age` counts before `Cache-Control`',
    requests: twice(control('max-age=60', 'max-age=1'), 2) },
  { ...targeted, id: 'cdn-expires', text: '`CDN-Cache-Control: max-age=0` counts before `Expires`',
    requests: twice([['CDN-Cache-Control', 'max-age=0', false], ['Date', 0], ['Expires', 10000]], 2) },
  ...['no-store', 'private', 'no-cache'].map(word => (
    { ...targeted, id: `cdn-${word}`, text: `\`CDN-Cache-Control: ${word}\` counts before \`Cache-Control: max-age\``,
      requests: twice(control('max-age=60', word), 2) })),
  { ...targeted, kind: 'optimal', id: 'cdn-store', text: '`CDN-Cache-Control: max-age` counts before `Cache-Control: no-store`',
    requests: twice(control('no-store', 'max-age=60'), 1) },
  { ...targeted, kind: 'optimal', id: 'cdn-extension', text: 'An unknown directive in `CDN-Cache-Control` is ignored',
    requests: twice(control('max-age=1', 'max-age=60, unknown=1'), 1) },
  { ...targeted, section: '2.1', id: 'cdn-invalid', text: 'A `CDN-Cache-Control` that is no dictionary of RFC 9651 is ignored as a whole',
    requests: twice(control('max-age=1', 'max-age=60, &&&&'), 2) },
  { ...targeted, section: '2.1', id: 'cdn-case', text: 'Names in `CDN-Cache-Control` are in lower case, else it is ignored',
    requests: twice(control('max-age=1', 'MAX-AGE=60'), 2) },
  { ...targeted, section: '2.1', id: 'cdn-type', text: 'A `max-age` that is text and no number makes nothing fresh',
    requests: twice([['CDN-Cache-Control', 'max-age="60"', false]], 2) },
  { ...targeted, section: '2', kind: 'check', id: 'cdn-forwarded', text: '`CDN-Cache-Control` is sent on to the client',
    requests: [{ response: control('max-age=60', 'max-age=50'), expected: { fields: { 'cdn-cache-control': /max-age=50/ } } }] },

  { ...status, section: '2.1', id: 'status-hit', text: 'A response from the cache has `hit`',
    requests: [{ response: control('max-age=60') }, { response: [], expected: says(/;\s*hit\b/, 1) }] },
  { ...status, section: '2.2', id: 'status-miss', text: 'One that was not there has `fwd=uri-miss` or `fwd=miss`',
    requests: [{ response: control('max-age=60'), expected: says(/;\s*fwd=(uri-)?miss\b/) }] },
  { ...status, section: '2.2', id: 'status-stale', text: 'One that was stale has `fwd=stale`',
    requests: twice([...control('max-age=1'), ['ETag', '"a"']], 2, { expected: says(/;\s*fwd=stale\b/) }) },
  { ...status, section: '2.2', id: 'status-vary', text: 'Another variant has `fwd=vary-miss` or `fwd=miss`',
    requests: [
      { request: { 'x-a': '1' }, response: [...control('max-age=60'), ['Vary', 'X-A']], pause: true },
      { request: { 'x-a': '2' }, response: [...control('max-age=60'), ['Vary', 'X-A']], expected: says(/;\s*fwd=(vary-)?miss\b/) }] },
  { ...status, section: '2.2', id: 'status-method', text: 'A POST has `fwd=method` or `fwd=bypass`',
    requests: [{ method: 'POST', response: [], expected: says(/;\s*fwd=(method|bypass)\b/) }] },
  { ...status, section: '2.2', id: 'status-request', text: 'Where the request demands the origin, it is `fwd=request`',
    requests: [
      { response: control('max-age=60') },
      { request: { 'cache-control': 'no-cache' }, response: control('max-age=60'), expected: says(/;\s*fwd=request\b/) }] },
  { ...status, section: '2.4', id: 'status-ttl', text: 'A response from the cache has `ttl`, in seconds',
    requests: [{ response: control('max-age=60') }, { response: [], expected: says(/;\s*ttl=(60|59|58)\b/) }] },
  { ...status, section: '2.4', id: 'status-negative', text: '`ttl` of a stale response is negative',
    requests: twice(control('max-age=1, stale-if-error=60'), 1, { status: [503, 'Error'], expected: says(/;\s*ttl=-\d+\b/) }) },
  { ...status, section: '2.5', id: 'status-stored', text: 'A response that is kept has `stored`',
    requests: [{ response: control('max-age=60'), expected: says(/;\s*stored\b/) }] },
  { ...status, section: '2.5', id: 'status-not-stored', text: 'One that is not kept has no `stored`',
    requests: [{ response: control('no-store'), expected: says(/^(?!.*;\s*stored(?!=\?0)\b).*fwd/) }] }
]
