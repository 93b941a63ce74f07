// An API that answers with the request as it received it. PORT.
const http = require('http');

http.createServer((request, response) => {
  let content = '';
  request.on('data', (part) => { content += part; });
  request.on('end', () => {
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-frame-options': 'DENY' });
    response.end(JSON.stringify({ method: request.method, target: request.url, fields: request.headers, content }));
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
