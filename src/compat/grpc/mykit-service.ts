// MykitService is the Dubbo interface of mykit-delay, as a consumer of Dubbo 3 calls it (Triple). Its results
// are those of the HTTP port for clients of mykit-delay.

import type { Rights } from '../../core/token.ts';
import { CompatJobs, topicOrMade } from '../compat-jobs.ts';
import type { CompatParts } from '../compat-listener.ts';
import { leavesOpen } from '../http/http-listener.ts';
import { PoppedJobs } from '../http/popped-jobs.ts';
import { failed, SdmqJobs, type SdmqResult } from '../sdmq/sdmq-jobs.ts';
import type { GrpcMethod, GrpcMethods, GrpcVerb, Message } from './messages.ts';

export class MykitService {
  readonly #jobs: CompatJobs;
  readonly #sdmq: SdmqJobs;

  constructor(parts: CompatParts) {
    const { role, pushes, access } = parts;
    const findTopic = (name: string) => topicOrMade(role, name);
    const jobs = new CompatJobs({ role, pushes, access, via: 'grpc', findTopic });
    this.#jobs = jobs;
    this.#sdmq = new SdmqJobs({ role, access, jobs, popped: new PoppedJobs(parts, jobs) });
  }

  readonly methods: GrpcMethods = {
    push: this.#method('push', (message, rights) => this.#push(message, rights)),
    delete: this.#method('del', (message, rights) => this.#sdmq.delete(idOf(message), rights)),
    finish: this.#method('finish', (message, rights) => this.#sdmq.finish(idOf(message), rights)),
    reStoreJob: this.#method('restore', (message, rights) => this.#sdmq.restoreJob(idOf(message), rights)),
    reStore: this.#method('restore', (_, rights) => this.#sdmq.restore(rights)),
    clearAll: this.#method('clear', (_, rights) => this.#sdmq.clearAll(rights)),
  };

  #method(verb: GrpcVerb, execute: (message: Message, rights: Rights) => Promise<SdmqResult>): GrpcMethod {
    return {
      verb,
      execute: async (message, { rights }) => replyOf(await execute(message, rights).catch(this.#failure)),
      isOk: (reply) => (reply as Reply).success,
    };
  }

  /** Consumers repeat a failed call by themselves, so an unknown push without an id of the consumer is an
   *  answer, whose data is the id. */
  async #push(message: Message, rights: Rights): Promise<SdmqResult> {
    // Members that are not given have the values '' and 0. A text can be "0".
    const given = Object.entries(message).filter(
      ([name, value]) => value !== '' && (String(value) !== '0' || !numbers.has(name)),
    );
    const result = await this.#sdmq.push(
      Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
      { rights },
    );
    if (result.error !== undefined && leavesOpen(result.error) && hasId(message)) throw result.error;
    return result;
  }

  /** Throws what leaves open whether the call had an effect: the consumer repeats it. */
  readonly #failure = (thrown: unknown): SdmqResult => {
    const error = this.#jobs.errorOf(thrown);
    if (leavesOpen(error)) throw error;
    return failed(error.message);
  };
}

interface Reply {
  readonly success: boolean;
  readonly data: string;
  readonly message: string;
  readonly code: number;
}

function replyOf({ isOk, data, message }: SdmqResult): Reply {
  return { success: isOk, data: data ?? '', message: message ?? '', code: isOk ? 200 : 500 };
}

/** of a pushed message */
const numbers: ReadonlySet<string> = new Set(['delay', 'ttl', 'createTime', 'status']);
const idOf = ({ jobId = '' }: Message): string => String(jobId);
const hasId = ({ id = '' }: Message): boolean => id !== '';
