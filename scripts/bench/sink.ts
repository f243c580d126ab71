// The receiver of the benchmark: answers each call at once, notes how late it came, and prints a line at
// the arrivals that the benchmark waits for. Prints its port; ends with its standard input.
import { createServer } from 'node:http';

interface Path {
  readonly dueAt: number[];
  readonly lateness: number[];
}

let paths = new Map<string, Path>();
let received = 0;
let [skip, count] = [0, 0];

const server = createServer((request, response) => {
  const arrivedAt = Date.now();
  const url = request.url ?? '/';
  if (request.method === 'GET') {
    response.end(JSON.stringify({ ...(paths.get(url) ?? { dueAt: [], lateness: [] }), received }));
    paths.delete(url);
    return;
  }
  if (request.method === 'PUT') {
    const query = new URL(url, 'http://sink').searchParams;
    [skip, count] = [Number(query.get('skip')), Number(query.get('count'))];
    paths = new Map();
    received = 0;
    response.end();
    return;
  }
  request.resume();
  request.on('end', () => {
    received += 1;
    if (received === skip) console.log(`skipped ${performance.now()}`);
    if (received === count) console.log(`done ${performance.now()}`);
    const header = request.headers['dq-due-at'];
    if (typeof header === 'string') {
      let path = paths.get(url);
      if (path === undefined) {
        path = { dueAt: [], lateness: [] };
        paths.set(url, path);
      }
      const dueAt = Date.parse(header);
      path.dueAt.push(dueAt);
      path.lateness.push(arrivedAt - dueAt);
    }
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 12 });
    response.end('{"code":200}');
  });
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as { port: number }).port));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
