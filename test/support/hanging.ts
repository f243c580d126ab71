// A receiver on every loopback address, each its own origin. It answers until hang(), then never.
import { createServer } from 'node:http';
import { listening } from './listening.ts';

export interface HangingServer {
  /** URL of the n-th origin, n < 65,536. */
  urlOf(n: number): string;
  /** Topics in the order of their calls. */
  readonly called: readonly string[];
  open(): number;
  /** From now on it never answers. */
  hang(): void;
}

export async function startHanging(): Promise<HangingServer> {
  const called: string[] = [];
  let open = 0;
  let hangs = false;
  const server = createServer((request, response) => {
    called.push(String(request.headers['dq-topic']));
    if (!hangs) {
      response.end('{}');
      return;
    }
    open += 1;
    response.on('close', () => {
      open -= 1;
    });
  });
  const port = await listening(server, '0.0.0.0');
  return {
    urlOf: (n) => `http://127.1.${n >> 8}.${n & 255}:${port}/`,
    called,
    open: () => open,
    hang() {
      hangs = true;
    },
  };
}
