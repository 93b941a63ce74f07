// The echo on Node's http module: `node echo.js PORT`.
const http = require("http"), fs = require("fs");

const server = http.createServer((request, response) => {
  const parts = [];
  let done = false;
  const record = (complete) => {
    if (done) return "";
    done = true;
    const body = Buffer.concat(parts), headers = [];
    for (let at = 0; at < request.rawHeaders.length; at += 2) headers.push([request.rawHeaders[at], request.rawHeaders[at + 1]]);
    request.socket.count = (request.socket.count || 0) + 1;
    const line = JSON.stringify({ method: request.method, target: request.url, headers, length: complete ? body.length : null,
      body: body.subarray(0, 512).toString("hex"), connection: String(request.socket.remotePort),
      number: request.socket.count });
    fs.appendFileSync(process.env.SEEN, line + "\n");
    return line;
  };
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const line = record(true);
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(line) });
    response.end(line);
  });
  request.on("error", () => record(false));
  request.on("close", () => record(request.complete));
});
server.keepAliveTimeout = 60000;
server.listen(Number(process.argv[2]), "127.0.0.1");
