// Composes a process as the daemon does, but inside the test, which sees what leaves it.

import type { Socket } from 'node:net';
import { composeRole, type Parts } from '../../src/compose/compose.ts';
import type { Init, ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { Role, RoleContext } from '../../src/process/role.ts';
import type { Composed } from '../../src/process/worker-life.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { MetricBuffer } from '../../src/telemetry/metrics.ts';

export interface ComposedProcess extends Composed {
  readonly ctx: RoleContext;
  readonly role: Role;
  /** `topic name` → count */
  readonly counted: Map<string, number>;
  readonly meter: MetricBuffer;
  tell(message: ToWorker, connection?: Socket): void;
}

export interface ProcessParts extends Omit<Parts, 'channel' | 'create'> {
  readonly create: (ctx: RoleContext) => Role;
  readonly onSend?: ((message: ToMaster, answer: (message: ToWorker) => void) => void) | undefined;
}

/** Started; its drain closes it. */
export async function startComposed(
  init: Pick<Init, 'role' | 'config'> & Partial<Init>,
  { create, onSend = () => {}, ...parts }: ProcessParts,
): Promise<ComposedProcess> {
  const counted = new Map<string, number>();
  const meter = new MetricBuffer();
  const listeners: ((message: ToWorker, connection?: Socket) => void)[] = [];
  const tell = (message: ToWorker, connection?: Socket) => {
    for (const listen of listeners) listen(message, connection);
  };
  let ctx = {} as RoleContext;
  let role = {} as Role;
  const composed = await composeRole(
    {
      ...{ index: 0, count: 1, restarts: 0, instance: 1, incarnation: 1, takesOver: false },
      ...{ kind: 'init', isOnTrial: false, isRunning: false, socketPath: '', adminToken: 'admin' },
      ...init,
    },
    {
      channel: {
        send: (message) => onSend(message, tell),
        sent: async (message) => onSend(message, tell),
        onMessage: (listen) => void listeners.push(listen),
        deliver: tell,
      },
      log: silentLog,
      metrics: meter,
      counters: {
        add: (topic, name, n = 1) =>
          void counted.set(`${topic} ${name}`, (counted.get(`${topic} ${name}`) ?? 0) + n),
        flush: async () => {},
        close: async () => {},
      },
      create: (own) => {
        ctx = own;
        role = create(own);
        return role;
      },
      // Known to tests, which write leases.
      leaseKey: () => Buffer.alloc(32),
      end: (reason) => {
        throw new Error(reason);
      },
      ...parts,
    },
  );
  try {
    await composed.start();
  } catch (error) {
    await composed.drain(0, true);
    throw error;
  }
  return { ...composed, ctx, role, counted, meter, tell };
}
