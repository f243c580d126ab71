// Fails a connection when a step of its set-up fails: AUTH, SELECT, READONLY, CLIENT. The library only
// reports most of these failures, and uses the connection: without SELECT the commands go to database 0,
// which may belong to another program.
// Invariant: no command of dq is sent on a connection before each step of its set-up has succeeded, at the
// first connection and at each later one.

import type { Command, Redis } from 'ioredis';

const steps = new Set(['auth', 'hello', 'select', 'readonly', 'client']);

/** A server rejected a step of the set-up. */
export class SetUpError extends Error {
  /** the server's error reply */
  readonly reply: string;

  constructor(step: string, reply: string) {
    // A reply that begins with another word than ERR names its reason itself.
    super(reply.startsWith('ERR ') ? `${step}: ${reply}` : reply);
    this.name = 'SetUpError';
    this.reply = reply;
  }
}

/** For a client that is not connected yet. */
export function requireSetUp(client: Redis): void {
  const { sendCommand } = client;
  client.sendCommand = (command, stream) => {
    // The library itself sends these commands before the connection is ready, and no other ones.
    if (client.status === 'connect' && steps.has(command.name)) failOnRejection(client, command);
    return sendCommand.call(client, command, stream);
  };
}

/** The rejected step stays without an answer: after one, the library would use the connection. */
function failOnRejection(client: Redis, command: Command): void {
  const { reject } = command;
  command.reject = (error) => {
    if (error.name !== 'ReplyError' || isNeedless(command, error)) return reject(error);
    client.stream.destroy(new SetUpError(titleOf(command), withoutArguments(error.message)));
  };
}

/** CLIENT SETNAME only names the connection for operators. Some users may not call it, and some proxies do
 *  not have it. */
function isNeedless({ name }: Command, { message }: Error): boolean {
  return name === 'client' && /^(NOPERM|ERR unknown (sub)?command)/i.test(message);
}

/** Without a password. */
function titleOf({ name, args }: Command): string {
  const [first = ''] = args.map(String);
  const shown = name === 'select' ? ` ${first}` : name === 'client' ? ` ${first.toUpperCase()}` : '';
  return `${name.toUpperCase()}${shown}`;
}

/** Redis repeats the arguments of an unknown command, so also a password. */
const withoutArguments = (reply: string): string => reply.replace(/, with args beginning with:[\s\S]*$/, '');
