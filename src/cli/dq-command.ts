// A command of dq. Its messages about wrong words end with the way to the right ones: the name that was
// meant, or else the usage.

import { Command, type ErrorOptions } from 'commander';
import { suggest } from '../core/suggest.ts';

export class DqCommand extends Command {
  override createCommand(name?: string): DqCommand {
    return new DqCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const near = nameMeant(this, message, options?.code);
    const hint = near === null ? `Usage: ${this.createHelp().commandUsage(this)}` : `(Did you mean ${near}?)`;
    const [only] = this.args;
    const isIdAlone = options?.code === 'commander.missingArgument' && /'id'/.test(message) && only;
    const way = isIdAlone ? `if ${only} is the id: dq ls --id ${only} finds its topic\n` : '';
    return super.error(`${message}\n${way}${hint}\n(${pathOf(this)} --help)`, options);
  }
}

/** The name that an unknown word means; null: no name is near, or the mistake is another one. */
function nameMeant(command: Command, message: string, code: string | undefined): string | null {
  if (code === 'commander.unknownOption') {
    const names = command.options.flatMap(({ long, hidden }) => (long && !hidden ? [long] : []));
    return suggest(/'(.*)'/.exec(message)?.[1] ?? '', names);
  }
  if (code === 'commander.missingMandatoryOptionValue') {
    // Its value without its name: `dq apply topics.yaml`.
    const [flag] = /--[a-z-]+/.exec(message) ?? [];
    const value = command.args[command.registeredArguments.length];
    return value === undefined ? null : `${pathOf(command)} … ${flag} ${value}`;
  }
  if (code !== 'commander.unknownCommand') return null;
  const [given = ''] = command.args;
  const aliases = command.commands.flatMap((one) => one.aliases());
  const near = suggest(given, commandNames(command)) ?? suggest(given, aliases);
  return near === null ? null : `${pathOf(command)} ${near}`;
}

/** The names of all commands below this one: `topic`, `topic add`, … */
export function commandNames(command: Command): readonly string[] {
  return command.commands.flatMap((one) => [
    one.name(),
    ...commandNames(one).map((name) => `${one.name()} ${name}`),
  ]);
}

export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
