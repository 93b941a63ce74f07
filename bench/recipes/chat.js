// A chat server. PORT, NAME, the folder of the package `ws`.
// A message goes to every client of this server. `ping`: the server pings its sender, and the pong is answered; `bye`: it closes with 4001.
const [port, name, modules] = process.argv.slice(2);
const { WebSocketServer } = require(`${modules}/ws`);
const server = require('http').createServer((request, response) => response.end(`${name}\n`));
const chat = new WebSocketServer({ server, handleProtocols: (offered) => (offered.has('chat.v2') ? 'chat.v2' : false) });
const all = (text) => chat.clients.forEach((client) => client.readyState === 1 && client.send(text));

chat.on('connection', (client) => {
  client.send(name);
  client.on('pong', (content) => client.send(`pong ${content}`));
  client.on('close', (code, reason) => all(`left ${code} ${reason}`));
  client.on('message', (content) => {
    const text = content.toString();
    if (text === 'ping') client.ping('are you there');
    else if (text === 'bye') client.close(4001, 'good bye');
    else all(text);
  });
});
server.listen(Number(port), '127.0.0.1');
