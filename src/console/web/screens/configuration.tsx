// Configuration: the options in force with their origins; what a reload would change. A browser edits none.

import type { ComponentChildren } from 'preact';
import type { ConfigJson } from '../../../contract/api/daemon.ts';
import type { CallError } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { List } from '../parts/list.tsx';
import { Card, ClearFilters, CopyButton, Head, LoadError, Strip, Toggle } from '../parts/parts.tsx';
import { place, setQuery } from '../router.ts';
import { langOf, serverText, t } from '../words/words.ts';

type Option = ConfigJson['items'][number];

export function Screen() {
  const poll = usePoll<ConfigJson>('/v1/config', 10_000);
  const { data } = poll;
  const { query } = place.value;
  const text = query.get('q') ?? '';
  const [changed, restart] = [query.has('changed'), query.has('restart')];
  const shown = (data?.items ?? []).filter(
    ({ name, value, help, source, next, needsRestart }) =>
      (!changed || source !== 'default' || next !== null) &&
      (!restart || needsRestart) &&
      [name, value, help, helpOf({ name, help })].some((part) =>
        part.toLowerCase().includes(text.toLowerCase()),
      ),
  );
  const pending = (data?.items ?? []).filter(({ next }) => next !== null);
  return (
    <>
      <Head
        title={t('configuration')}
        sub={data === null ? undefined : `${data.file ?? t('no_config_file')} · ${t('config_note')}`}
        actions={
          data === null ? undefined : (
            <CopyButton text={yamlOf(data.items)} label={t('copy_yaml')}>
              {t('copy_yaml')}
            </CopyButton>
          )
        }
      />
      <LoadError error={poll.error} what={t('configuration')} retry={poll.refresh} />
      {data === null || data.problem === null ? null : (
        <Strip role="alert">
          <b>{t('config_problem')}</b> {data.problem}
        </Strip>
      )}
      {pending.length === 0 ? null : (
        <Strip tone="info" icon="redo">
          {t('config_pending', { count: pending.length })}
        </Strip>
      )}
      <div class="fields">
        <label class={text === '' ? 'field' : 'field on'}>
          {t('search')}
          <input
            value={text}
            autocomplete="off"
            placeholder={t('search_options')}
            onInput={(event) => setQuery({ q: event.currentTarget.value })}
          />
        </label>
        <Toggle isOn={changed} onClick={() => setQuery({ changed: changed ? '' : '1' })}>
          {t('changed_only')}
        </Toggle>
        <Toggle isOn={restart} onClick={() => setQuery({ restart: restart ? '' : '1' })}>
          {t('needs_restart')}
        </Toggle>
      </div>
      <Card>
        <Options
          options={data === null ? null : shown}
          error={poll.error}
          empty={
            <>
              {t('no_option')} <ClearFilters names="q changed restart" isShown look="s" />
            </>
          }
        />
      </Card>
    </>
  );
}

const helpOf = ({ name, help }: Pick<Option, 'name' | 'help'>): string => serverText(`option_${name}`, help);

function Help(option: Option) {
  const text = helpOf(option);
  return <span lang={langOf(text, option.help)}>{text}</span>;
}

const originOf = ({ source, origin }: Option): string =>
  source === 'default' ? t('origin_default') : `${t(`origin_${source}`)} ${origin}`;

function Value({ value, next, source }: Option) {
  return (
    <>
      <span class={source === 'default' ? 'mono' : 'mono strong'}>{value === '' ? '–' : value}</span>
      {next === null ? null : (
        <span class="tag warn">{t('after_reload', { value: next === '' ? '–' : next })}</span>
      )}
    </>
  );
}

const Options = ({
  options,
  error,
  empty,
}: {
  options: readonly Option[] | null;
  error: CallError | null;
  empty: ComponentChildren;
}) => (
  <List
    look="options"
    items={options}
    error={error}
    rows={8}
    empty={empty}
    keyOf={({ name }) => name}
    columns={{
      name: {
        head: t('option'),
        cell: (option) => (
          <span class="two">
            <span class="mono">{option.name}</span>
            <small>
              <Help {...option} />
            </small>
          </span>
        ),
      },
      value: { head: t('value'), look: 'text', cell: Value },
      origin: { head: t('origin'), look: 'soft text', cell: originOf },
      byDefault: {
        head: t('default_value'),
        look: 'mono faint text',
        cell: ({ defaultValue }) => defaultValue || '–',
      },
      restart: {
        head: t('needs_restart'),
        look: 'soft',
        cell: ({ needsRestart }) => needsRestart && t('yes'),
      },
    }}
    card={(option) => (
      <>
        <div class="row">
          <span class="mono grow">{option.name}</span>
          {option.needsRestart ? <span class="tag">{t('needs_restart')}</span> : null}
        </div>
        <p class="text">
          <Value {...option} />
        </p>
        <p class="faint text">
          {originOf(option)} · <Help {...option} />
        </p>
      </>
    )}
  />
);

/** Two options exist as flags only. */
const isWritten = ({ name, source }: Option): boolean =>
  source !== 'default' && name !== 'noAuth' && name !== 'noDeliveries';

/** The options that differ from their defaults, as dq.yaml; masked ones only as a comment. */
function yamlOf(items: readonly Option[]): string {
  const lines: string[] = [];
  let group = '';
  for (const { name, value } of items.filter(isWritten)) {
    const [first = '', second] = name.split('.');
    if (second !== undefined && first !== group) lines.push(`${first}:`);
    group = second === undefined ? '' : first;
    const indent = second === undefined ? '' : '  ';
    const isPlain = /^(?:\[.*\]|[A-Za-z0-9_./+-][A-Za-z0-9_./:@+ -]*)$/.test(value) && !/: | #/.test(value);
    lines.push(
      value === '********'
        ? `${indent}# ${second ?? first}: ${t('masked')}`
        : `${indent}${second ?? first}: ${isPlain ? value : JSON.stringify(value)}`,
    );
  }
  return `${lines.join('\n')}\n`;
}
