// Sends the metrics of one process to the master: at every tick, and once more at its end.

import { MetricBuffer } from '../telemetry/metric-buffer.ts';
import type { OpenLog } from '../telemetry/open-log.ts';
import type { MasterChannel } from './master-channel.ts';

export class MetricSender {
  readonly buffer = new MetricBuffer();
  readonly #channel: Pick<MasterChannel, 'send' | 'sent'>;
  readonly #log: Pick<OpenLog, 'dropped'>;
  #droppedSent = 0;

  constructor(channel: Pick<MasterChannel, 'send' | 'sent'>, log: Pick<OpenLog, 'dropped'>) {
    this.#channel = channel;
    this.#log = log;
  }

  beat(): void {
    const metrics = this.#take();
    if (metrics !== null) this.#channel.send({ kind: 'metrics', metrics });
  }

  /** Resolves when the metrics are sent, or the channel is closed. */
  async flush(): Promise<void> {
    const metrics = this.#take();
    if (metrics !== null) await this.#channel.sent({ kind: 'metrics', metrics });
  }

  #take(): ReturnType<MetricBuffer['take']> {
    const dropped = this.#log.dropped();
    if (dropped > this.#droppedSent)
      this.buffer.count('dq_log_lines_dropped_total', dropped - this.#droppedSent);
    this.#droppedSent = dropped;
    return this.buffer.take();
  }
}
