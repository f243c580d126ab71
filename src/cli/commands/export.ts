// dq export: prints topics and schedules as the file of `dq apply`, without defaults and without secrets.

import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import { stringify } from 'yaml';
import { ScheduleInput, type ScheduleJson } from '../../contract/api/schedule.ts';
import { isJsonType } from '../../core/json-text.ts';
import { topicColumns } from '../../core/topic/fields.ts';
import { completeSettings, maskedValue, settingsJson, type TopicJson } from '../../core/topic/settings.ts';
import { topicDefaults } from '../../core/topic/topic.ts';
import { readStored } from '../apply/plan.ts';
import { isInScope } from '../apply/topics-file.ts';
import { clientOf, type DaemonOptions, daemonCommand } from '../daemon/daemon-options.ts';
import { gatherItems } from '../flags.ts';
import { printData } from '../output/output.ts';

interface Flags extends DaemonOptions {
  readonly scope?: readonly string[];
}

const head = `# dq apply -f FILE makes topics and schedules as they are here. A member that is not here takes its default,
# but for the state and the secret of a topic, and the timezone and paused of a schedule, which stay.
# No secret of a topic is here, and a callbackUrl is whole. *** keeps the stored value of a header;
# \${NAME} is a variable of the environment.
`;

export function register(program: Command): void {
  daemonCommand(program, 'export', 'print topics and schedules as the file of dq apply', print)
    .option('--scope <globs>', 'only topics that match, and their schedules; repeatable', gatherItems)
    .option('--json', 'JSON in place of YAML')
    .addHelpText(
      'after',
      `
Examples:
  dq export > dq-topics.yaml
  dq export --scope 'order.*' > order.yaml                  dq apply --prune removes inside this scope`,
    );
}

async function print(flags: Flags): Promise<void> {
  const stored = await readStored(clientOf(flags));
  const { scope } = flags;
  const isWanted = (topic: string) => scope === undefined || isInScope(scope, topic);
  const topics = [...stored.topics.values()].filter(({ topic }) => isWanted(topic));
  const schedules = [...stored.schedules.values()].filter(({ topic }) => isWanted(topic));
  const content = {
    ...(scope === undefined ? {} : { scope }),
    topics: Object.fromEntries(topics.map((one) => [one.topic, writtenTopic(one)])),
    schedules: Object.fromEntries(schedules.map((one) => [one.name, writtenSchedule(one)])),
  };
  printData(
    flags.json
      ? JSON.stringify(content)
      : head + stringify(content, { lineWidth: 0, aliasDuplicateObjects: false }),
  );
}

/** The members with another value than their default. */
function writtenTopic(topic: TopicJson): object {
  const usual = settingsJson(completeSettings({ settings: { format: topic.format } }));
  const defaults = { ...usual, format: topicDefaults.format, state: topicColumns.state.default };
  const written: Record<string, unknown> = {};
  for (const [name, byDefault] of Object.entries(defaults)) {
    const value = topic[name as keyof TopicJson];
    if (!isDeepStrictEqual(value, byDefault)) written[name] = name === 'headers' ? masked(value) : value;
  }
  return written;
}

const masked = (headers: unknown) =>
  Object.fromEntries(Object.keys(Object(headers)).map((name) => [name, maskedValue]));

/** As a request gives it, without defaults. The time zone has none here: it is an option of the daemon. */
function writtenSchedule(schedule: ScheduleJson): object {
  const shown: Readonly<Record<string, unknown>> = { ...schedule };
  const written: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries<object>(ScheduleInput.properties)) {
    const value = shown[name] ?? undefined;
    const isDefault = 'default' in schema && schema.default === value;
    if (name !== 'name' && value !== undefined && !isDefault) written[name] = value;
  }
  if (schedule.body === '') delete written['body'];
  else if (isJsonType(schedule.contentType)) written['body'] = JSON.parse(schedule.body);
  return written;
}
