// The metrics of one process on their way: handed to the master at every beat of the pulse, and once more at the end.

import { MetricBuffer } from '../telemetry/metric-buffer.ts';
import type { OpenLog } from '../telemetry/open-log.ts';
import type { MasterChannel } from './master-channel.ts';

export class MetricSender {
  readonly meter = new MetricBuffer();
  readonly #channel: Pick<MasterChannel, 'send' | 'sent'>;
  readonly #log: Pick<OpenLog, 'dropped'>;
  #droppedTold = 0;

  constructor(channel: Pick<MasterChannel, 'send' | 'sent'>, log: Pick<OpenLog, 'dropped'>) {
    this.#channel = channel;
    this.#log = log;
  }

  beat(): void {
    const metrics = this.#take();
    if (metrics !== null) this.#channel.send({ kind: 'metrics', metrics });
  }

  /** Resolves when the master has them, or nobody will. */
  async flush(): Promise<void> {
    const metrics = this.#take();
    if (metrics !== null) await this.#channel.sent({ kind: 'metrics', metrics });
  }

  #take(): ReturnType<MetricBuffer['take']> {
    const dropped = this.#log.dropped();
    if (dropped > this.#droppedTold)
      this.meter.count('dq_log_lines_dropped_total', dropped - this.#droppedTold);
    this.#droppedTold = dropped;
    return this.meter.take();
  }
}
