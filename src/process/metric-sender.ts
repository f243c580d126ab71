// Sends the metrics of one process to the master: at every tick, and once more at its end.

import type { OpenLog } from '../telemetry/log.ts';
import { MetricBuffer } from '../telemetry/metric-buffer.ts';
import type { WorkerChannel } from './own-process.ts';

export class MetricSender {
  readonly buffer: MetricBuffer;
  readonly #channel: Pick<WorkerChannel, 'send' | 'sent'>;
  readonly #log: Pick<OpenLog, 'dropped'>;
  #droppedSent = 0;

  constructor(
    channel: Pick<WorkerChannel, 'send' | 'sent'>,
    log: Pick<OpenLog, 'dropped'>,
    buffer = new MetricBuffer(),
  ) {
    this.buffer = buffer;
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
