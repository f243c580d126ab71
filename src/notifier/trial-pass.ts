// TrialPass is the one exception of the egress policy: while the console runs a trial, callbacks of its topic
// may reach its receiver, whatever the policy says about the loopback address.
// Invariant: it names one address, one port and one topic, and ends with the trial.

import type { EgressPolicy } from '../core/egress-policy.ts';
import { trial, trialOrigin } from '../core/trial.ts';
import type { MasterLink } from '../process/role.ts';

export class TrialPass {
  /** null: no trial runs on this instance */
  #port: number | null = null;

  constructor(link: Pick<MasterLink, 'onMessage'>) {
    link.onMessage((message) => {
      if (message.kind === 'trial') this.#port = message.port;
    });
  }

  /** Whether a call of this topic goes to the receiver of the running trial. */
  admits(topic: string, origin: string): boolean {
    return this.#port !== null && topic === trial.topic && origin === trialOrigin(this.#port);
  }

  /** For the connections of such calls. */
  readonly egress: Pick<EgressPolicy, 'refuses'> = {
    refuses: (address, port) =>
      address === trial.address && port === this.#port ? null : 'the trial has ended',
  };
}
