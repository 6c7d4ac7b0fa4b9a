// node node.mjs HOST PORT SECONDS: answers each request, and closes what is idle for that long.
import { createServer } from 'node:http';

const [host, port, seconds] = process.argv.slice(2);
const server = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(204).end());
});
server.keepAliveTimeout = Number(seconds) * 1000;
server.listen(Number(port), host);
