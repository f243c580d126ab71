// Runs a bare server for comparison in its own process: `push` answers like an intake without storage,
// `sink` like a receiver, `hang` accepts requests on every address of this machine and never answers.
// Prints its port; ends with its standard input.
import { createServer } from 'node:http';

const kind = process.argv[2];
/** Sink: lateness of each arrival in ms, by the dq-due-at header; read and emptied by GET /lateness. */
let lateness: number[] = [];
let received = 0;
/** Sink: the same with the due times; for one reader, at the end. */
const arrivals: { readonly dueAt: number; readonly lateness: number }[] = [];

const server = createServer((request, response) => {
  if (kind === 'hang') return;
  if (request.method === 'GET') {
    response.end(JSON.stringify(request.url === '/arrivals' ? { arrivals } : { received, lateness }));
    lateness = [];
    received = 0;
    return;
  }
  const arrivedAt = Date.now();
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    if (kind === 'push') {
      JSON.parse(Buffer.concat(chunks).toString());
      const reply = JSON.stringify({
        topic: 'bench',
        id: String(received++),
        version: '1',
        state: 'delayed',
        dueAt: new Date().toISOString(),
      });
      response.writeHead(201, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(reply),
      });
      response.end(reply);
      return;
    }
    received += 1;
    const dueAt = request.headers['dq-due-at'];
    if (typeof dueAt === 'string') {
      const due = Date.parse(dueAt);
      lateness.push(arrivedAt - due);
      if (request.url === '/arrivals') arrivals.push({ dueAt: due, lateness: arrivedAt - due });
    }
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 12 });
    response.end('{"code":200}');
  });
});
server.listen(0, kind === 'hang' ? '0.0.0.0' : '127.0.0.1', () =>
  console.log((server.address() as { port: number }).port),
);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
