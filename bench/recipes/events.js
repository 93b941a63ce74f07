// A server of events (text/event-stream). PORT.
// GET …: the events after Last-Event-ID, and new ones as they come. POST /say: its content is the next event, after `?after=` milliseconds.
const http = require('http');
const events = [], open = new Set();
const send = (response, id) => response.write(`id: ${id}\ndata: ${events[id]}\n\n`);

http.createServer((request, response) => {
  if (request.method === 'POST') {
    let content = '';
    request.on('data', (part) => { content += part; });
    request.on('end', () => {
      const after = Number(new URL(request.url, 'http://x').searchParams.get('after'));
      setTimeout(() => {
        events.push(content);
        open.forEach((client) => send(client, events.length - 1));
      }, after);
      response.end('taken\n');
    });
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.write(': open\n\n');
  const last = request.headers['last-event-id'];
  if (last !== undefined) for (let id = Number(last) + 1; id < events.length; id += 1) send(response, id);
  open.add(response);
  response.on('close', () => open.delete(response));
}).listen(Number(process.argv[2]), '127.0.0.1');
