// A Node server that guards nothing: `node admin.js PORT`. It answers ADMIN below /admin and OPEN elsewhere, by the URL of the request, decoded.
const http = require('node:http');

http.createServer((request, response) => {
  let path;
  try {
    path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  } catch {
    response.writeHead(400).end('WRONG');
    return;
  }
  response.end(path === '/admin' || path.startsWith('/admin/') ? 'ADMIN' : 'OPEN');
}).listen(Number(process.argv[2]), '127.0.0.1');
