// Renders why jobs of a topic are not called: a line per reason and notifier, for `dq topic get` and
// `dq explain`.

import { clientOf, type DaemonOptions } from '../daemon/daemon-options.ts';
import { Exit } from '../exit.ts';

export interface Reason {
  readonly message: string;
  readonly remedy: string;
}
export interface Capacity {
  readonly states: { readonly ready: number; readonly dead: number } | null;
  readonly reasons: readonly Reason[];
  readonly notifiers: readonly { readonly notifier: string; readonly reasons: readonly Reason[] | null }[];
}

export const capacityCall = (topic: string) =>
  ({ path: ['v1', 'topics', topic, 'capacity'], needs: ['notifiers'] }) as const;

/** Rows of a record. Empty without a usable reply: unavailable notifiers, a cut connection. */
export async function deliveryLines(
  topic: string,
  flags: DaemonOptions,
): Promise<readonly (readonly [name: string, text: string])[]> {
  const reply = await clientOf(flags)
    .call<Capacity>(capacityCall(topic))
    .catch((error: unknown) => {
      if (error instanceof Exit) return null;
      throw error;
    });
  return reply === null ? [] : capacityLines(reply.json).map((line) => ['delivery', line]);
}

/** At least one line. */
export function capacityLines({ reasons, notifiers }: Capacity): readonly string[] {
  const lines = [
    ...reasons.map(reasonLine),
    ...notifiers.flatMap(({ notifier, reasons: own }) =>
      (own === null ? ['does not answer; dq status shows the processes'] : own.map(reasonLine)).map(
        (line) => `${notifier}: ${line}`,
      ),
    ),
  ];
  return lines.length === 0 ? ['nothing keeps its jobs back'] : lines;
}

export const reasonLine = ({ message, remedy }: Reason): string => `${message} (${remedy})`;
