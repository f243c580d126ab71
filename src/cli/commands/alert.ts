// dq alert test: tries the mail server or a hook. `dq alerts` lists the alerts.

import type { Command } from 'commander';
import { isMailAddress } from '../../core/mail-address.ts';
import type { DaemonOptions } from '../daemon/daemon-options.ts';
import { clientOf, withDaemonOptions } from '../daemon/daemon-options.ts';
import { printData, say } from '../output/output.ts';

export function register(program: Command): void {
  const family = program.command('alert').description('mail server and hooks of the alerts');
  const command = family
    .command('test')
    .description('send a test alert now to a mail address or a hook')
    .argument('<recipient>');
  withDaemonOptions(command).action(test);
}

async function test(to: string, flags: DaemonOptions): Promise<void> {
  const reply = await clientOf(flags).call({ method: 'POST', path: ['v1', 'alerts', 'test'], json: { to } });
  if (flags.json) printData(reply.text);
  say(
    isMailAddress(to)
      ? `dq: the mail server accepted a test mail to ${to}`
      : `dq: the hook ${to} accepted a test message`,
  );
}
