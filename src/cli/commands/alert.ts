// dq alert test: tries the mail server. `dq alerts` lists the alerts.

import type { Command } from 'commander';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { printData, say } from '../output/output.ts';

export function register(program: Command): void {
  const family = program.command('alert').description('mail server of the alerts');
  withDaemonOptions(family.command('test').description('send a test mail now').argument('<address>')).action(
    test,
  );
}

async function test(to: string, flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call({ method: 'POST', path: ['v1', 'alerts', 'test'], json: { to } });
  if (flags.json) printData(reply.text);
  say(`dq: the mail server accepted a test mail to ${to}`);
}
