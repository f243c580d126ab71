// A proxy that cuts a connection after a request with a certain word has arrived, so that its answer, or the
// request itself, is lost.
import { proxying } from './listening.ts';

export interface AnswerLoser {
  readonly port: number;
  /** From now on it cuts after each such request. */
  arm(): void;
}

export async function startAnswerLoser(
  serverPort: number,
  word: string,
  lost: 'answer' | 'request' = 'answer',
): Promise<AnswerLoser> {
  let isArmed = false;
  const port = await proxying(
    () => serverPort,
    (client, upstream) => {
      let isCut = false;
      client.on('data', (bytes) => {
        if (isArmed && bytes.includes(word)) isCut = true;
        if (isCut && lost === 'request') client.destroy();
        else upstream.write(bytes);
      });
      upstream.on('data', (bytes) => {
        // The server has done the work.
        if (isCut) client.destroy();
        else client.write(bytes);
      });
    },
  );
  return {
    port,
    arm() {
      isArmed = true;
    },
  };
}
