// A proxy that breaks the connection at each nth request, in turn before the server gets it, after the server
// has answered, and in the midst of its answer.
import { proxying } from './listening.ts';

export interface LossyProxy {
  readonly port: number;
  /** first lines of the requests, also of the broken ones: `POST /v1/pull` */
  readonly requests: readonly string[];
  /** so many connections broke */
  readonly broken: () => number;
}

const losses = ['request', 'answer', 'half of the answer'] as const;

export async function startLossyProxy(serverPort: number, everyNth: number): Promise<LossyProxy> {
  const requests: string[] = [];
  let broken = 0;
  const port = await proxying(
    () => serverPort,
    (client, upstream) => {
      let loss: (typeof losses)[number] | null = null;
      client.on('data', (bytes) => {
        const [, line] = /^([A-Z]+ \S+) HTTP/.exec(bytes.toString('latin1')) ?? [];
        if (line !== undefined && requests.push(line) % everyNth === 0)
          loss = losses[broken++ % losses.length] as (typeof losses)[number];
        if (loss === 'request') client.destroy();
        else upstream.write(bytes);
      });
      upstream.on('data', (bytes) => {
        if (loss === null) client.write(bytes);
        else if (loss === 'answer') client.destroy();
        else client.write(bytes.subarray(0, bytes.length / 2), () => client.destroy());
      });
    },
  );
  return { port, requests, broken: () => broken };
}
