// An application: counts the bytes of uploads, and answers messages on /chat. PORT, NAME, the folder of the package `ws`.
// GET /health: 200, or the status that `POST /health?status=` has set; each one is a line `checked`.
const [port, name, modules] = process.argv.slice(2);
const { WebSocketServer } = require(`${modules}/ws`);
let health = 200;

const server = require('http').createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://x');
  if (pathname === '/health') {
    if (request.method === 'GET') console.log('checked');
    if (request.method === 'POST') health = Number(searchParams.get('status'));
    response.writeHead(request.method === 'POST' ? 200 : health).end();
    return;
  }
  let bytes = 0;
  request.on('data', (part) => { bytes += part.length; });
  request.on('end', () => response.end(`${name}: ${bytes} bytes\n`));
});
new WebSocketServer({ server, path: '/chat' }).on('connection', (client) => {
  client.on('message', (content) => client.send(content.toString()));
});
server.listen(Number(port), '127.0.0.1');
