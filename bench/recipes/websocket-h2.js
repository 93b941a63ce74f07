// A WebSocket over HTTP/2 (RFC 8441). URL, the file of the authority. Prints the status, and what comes back for a message.
const [url, authority] = process.argv.slice(2);
const { origin, pathname } = new URL(url);
const session = require('http2').connect(origin, { ca: require('fs').readFileSync(authority) });

session.on('remoteSettings', () => {
  const stream = session.request({
    ':method': 'CONNECT', ':protocol': 'websocket', ':path': pathname, 'sec-websocket-version': '13',
  });
  stream.on('response', (head) => console.log(head[':status']));
  // A frame with the text `hello`; its mask is zero.
  stream.write(Buffer.from([0x81, 0x85, 0, 0, 0, 0, ...Buffer.from('hello')]));
  stream.on('data', (frame) => {
    console.log(frame.subarray(2).toString());
    session.destroy();
  });
});
