// Renders why jobs of a topic are not called: a line per reason and notifier, for `dq topic get`.

import { clientOf, type DaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';

interface Reason {
  readonly message: string;
  readonly remedy: string;
}
interface Capacity {
  readonly reasons: readonly Reason[];
  readonly notifiers: readonly { readonly notifier: string; readonly reasons: readonly Reason[] | null }[];
}

/** Rows of a record. Empty without a usable reply: an older daemon, unavailable notifiers, a cut
 *  connection. */
export async function deliveryLines(
  topic: string,
  flags: DaemonOptions,
): Promise<readonly (readonly [name: string, text: string])[]> {
  const reply = await clientOf(flags)
    .call<Capacity>({ method: 'GET', path: ['v1', 'topics', topic, 'capacity'], needs: ['notifiers'] })
    .catch((error: unknown) => {
      if (error instanceof Exit) return null;
      throw error;
    });
  if (reply === null) return [];
  const { reasons, notifiers } = reply.json;
  const lines = [
    ...reasons.map(lineOf),
    ...notifiers.flatMap(({ notifier, reasons: own }) =>
      (own === null ? ['does not answer; dq status shows the processes'] : own.map(lineOf)).map(
        (line) => `${notifier}: ${line}`,
      ),
    ),
  ];
  return (lines.length === 0 ? ['nothing keeps its jobs back'] : lines).map((line) => ['delivery', line]);
}

const lineOf = ({ message, remedy }: Reason): string => `${message} (${remedy})`;
